// Fences: a slice that one op reads in two arrangements is stored, since XLA would call a function for each element of it.

// RUN: jaxmlir-opt --jaxpr-materialize-shared %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-materialize-shared --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// All differences of a row of a scan's array. The carry is not a slice.
// CHECK-LABEL: func.func private @step
// CHECK-SAME:    %[[W:.*]]: tensor<32x32xf32>, %[[SUMS:.*]]: tensor<32xf32>, %[[ROW:.*]]: tensor<32xf32>
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[ROW]])
// CHECK-NEXT:    %[[COLUMN:.*]] = "jaxpr.reshape"(%[[STORED]]) {new_sizes = array<i64: 32, 1>}
// CHECK-NEXT:    %[[LINE:.*]] = "jaxpr.reshape"(%[[STORED]]) {new_sizes = array<i64: 1, 32>}
// CHECK-NEXT:    "jaxpr.sub"(%[[COLUMN]], %[[LINE]])
// CHECK-NOT:     {{fence|optimization_barrier}}
// CHECK:         return
// REMARK: materialize-shared-slices.mlir:{{[0-9]+}}:1: remark: [jaxpr-materialize-shared] stored because its user reads it with two index maps
func.func private @step(%w: tensor<32x32xf32>, %sums: tensor<32xf32>, %row: tensor<32xf32>) -> tensor<32xf32> {
  %column = "jaxpr.reshape"(%row) {new_sizes = array<i64: 32, 1>} : (tensor<32xf32>) -> tensor<32x1xf32>
  %line = "jaxpr.reshape"(%row) {new_sizes = array<i64: 1, 32>} : (tensor<32xf32>) -> tensor<1x32xf32>
  %differences = "jaxpr.sub"(%column, %line) : (tensor<32x1xf32>, tensor<1x32xf32>) -> tensor<32x32xf32>
  %down = "jaxpr.reshape"(%sums) {new_sizes = array<i64: 32, 1>} : (tensor<32xf32>) -> tensor<32x1xf32>
  %across = "jaxpr.reshape"(%sums) {new_sizes = array<i64: 1, 32>} : (tensor<32xf32>) -> tensor<1x32xf32>
  %others = "jaxpr.sub"(%down, %across) : (tensor<32x1xf32>, tensor<1x32xf32>) -> tensor<32x32xf32>
  %all = "jaxpr.add"(%differences, %others) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %weighted = "jaxpr.mul"(%all, %w) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %0 = "jaxpr.reduce_sum"(%weighted) {axes = array<i64: 1>} : (tensor<32x32xf32>) -> tensor<32xf32>
  return %0 : tensor<32xf32>
}

// A slice at an index known at run time, read through other ops; a slice that is read in one arrangement is left alone.
// CHECK-LABEL: func.func private @rows
// CHECK-NEXT:    %[[ROW:.*]] = "jaxpr.dynamic_slice"
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[ROW]])
// CHECK-NEXT:    %[[NEG:.*]] = "jaxpr.neg"(%[[STORED]])
// CHECK-NEXT:    "jaxpr.transpose"(%[[STORED]])
// CHECK-NOT:     {{fence|optimization_barrier}}
// CHECK:         return
func.func private @rows(%x: tensor<4x32xf32>, %i: tensor<i32>, %zero: tensor<i32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %row = "jaxpr.dynamic_slice"(%x, %i, %zero) {slice_sizes = array<i64: 1, 32>} : (tensor<4x32xf32>, tensor<i32>, tensor<i32>) -> tensor<1x32xf32>
  %neg = "jaxpr.neg"(%row) : (tensor<1x32xf32>) -> tensor<1x32xf32>
  %column = "jaxpr.transpose"(%row) {permutation = array<i64: 1, 0>} : (tensor<1x32xf32>) -> tensor<32x1xf32>
  %0 = "jaxpr.mul"(%neg, %column) : (tensor<1x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
  %other = "jaxpr.dynamic_slice"(%x, %zero, %i) {slice_sizes = array<i64: 1, 32>} : (tensor<4x32xf32>, tensor<i32>, tensor<i32>) -> tensor<1x32xf32>
  %1 = "jaxpr.mul"(%other, %0) : (tensor<1x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %0, %1 : tensor<32x32xf32>, tensor<32x32xf32>
}

// EXEC:      result[0]: f32[] = -1.2735691e+12
// EXEC-NEXT: result[1]: f32[] = -961.0
func.func public @main() -> (tensor<f32>, tensor<f32>) {
  %rows = "jaxpr.iota"() {dimension = 1 : i64, dtype = f32, shape = array<i64: 4, 32>} : () -> tensor<4x32xf32>
  %w = "jaxpr.iota"() {dimension = 1 : i64, dtype = f32, shape = array<i64: 32, 32>} : () -> tensor<32x32xf32>
  %none = "jaxpr.constant"() {value = dense<0.0> : tensor<32xf32>} : () -> tensor<32xf32>
  %sums = "jaxpr.scan"(%w, %none, %rows) {jaxpr = @step, length = 4 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<32x32xf32>, tensor<32xf32>, tensor<4x32xf32>) -> tensor<32xf32>
  %zero = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %one = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %pairs:2 = "jaxpr.jit"(%rows, %one, %zero) {jaxpr = @rows, name = "rows"} : (tensor<4x32xf32>, tensor<i32>, tensor<i32>) -> (tensor<32x32xf32>, tensor<32x32xf32>)
  %0 = "jaxpr.reduce_min"(%sums) {axes = array<i64: 0>} : (tensor<32xf32>) -> tensor<f32>
  %1 = "jaxpr.reduce_min"(%pairs#0) {axes = array<i64: 0, 1>} : (tensor<32x32xf32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
