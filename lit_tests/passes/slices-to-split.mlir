// In a loop, adjacent slices of an array become the pieces of a split.

// RUN: jaxmlir-opt --jaxpr-slices-to-split %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-slices-to-split %t | diff %t -
// RUN: jaxmlir-run %s > %t.before
// RUN: jaxmlir-run %t > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after
// RUN: jaxmlir-opt --target=tpu --jaxpr-slices-to-split %s | FileCheck %s --check-prefix=LEFT
// RUN: jaxmlir-opt --jaxpr-slices-to-split --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: slices-to-split.mlir:[[# @LINE + 12]]:8: remark: [jaxpr-slices-to-split] merged 2 slices of an array of shape (2, 48) into a split
// REMARK-NOT: remark

// The gap between the two slices becomes a piece that nothing reads.
// CHECK-LABEL: func.func private @step
// CHECK-SAME:    (%[[H:.*]]: tensor<2x16xf32>, %[[Z:.*]]: tensor<2x48xf32>)
// CHECK-NEXT:    %[[PARTS:.*]]:3 = "jaxpr.split"(%[[Z]]) {axis = 1 : i64, sizes = array<i64: 16, 16, 16>}
// CHECK-NEXT:    %[[PRODUCT:.*]] = "jaxpr.mul"(%[[PARTS]]#2, %[[H]])
// CHECK-NEXT:    "jaxpr.add"(%[[PRODUCT]], %[[PARTS]]#0)
// LEFT-LABEL: func.func private @step
// LEFT-NOT:     jaxpr.split
func.func private @step(%h: tensor<2x16xf32>, %z: tensor<2x48xf32>) -> tensor<2x16xf32> {
  %0 = "jaxpr.slice"(%z) {limit_indices = array<i64: 2, 48>, start_indices = array<i64: 0, 32>} : (tensor<2x48xf32>) -> tensor<2x16xf32>
  %1 = "jaxpr.slice"(%z) {limit_indices = array<i64: 2, 16>, start_indices = array<i64: 0, 0>} : (tensor<2x48xf32>) -> tensor<2x16xf32>
  %2 = "jaxpr.mul"(%0, %h) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  %3 = "jaxpr.add"(%2, %1) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  return %3 : tensor<2x16xf32>
}

// These slices stay: overlapping slices, slices in two dimensions, columns, and integers, which have no cotangent.
// CHECK-LABEL: func.func private @others
// CHECK-NOT:     jaxpr.split
func.func private @others(%h: tensor<2x32xf32>, %z: tensor<4x64xf32>, %n: tensor<64xi32>) -> (tensor<2x32xf32>, tensor<2xf32>, tensor<32xi32>) {
  %0 = "jaxpr.slice"(%z) {limit_indices = array<i64: 2, 32>, start_indices = array<i64: 0, 0>} : (tensor<4x64xf32>) -> tensor<2x32xf32>
  %1 = "jaxpr.slice"(%z) {limit_indices = array<i64: 4, 64>, start_indices = array<i64: 2, 32>} : (tensor<4x64xf32>) -> tensor<2x32xf32>
  %2 = "jaxpr.add"(%0, %1) : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<2x32xf32>
  %3 = "jaxpr.slice"(%2) {limit_indices = array<i64: 2, 31>, start_indices = array<i64: 0, 0>} : (tensor<2x32xf32>) -> tensor<2x31xf32>
  %4 = "jaxpr.slice"(%2) {limit_indices = array<i64: 2, 32>, start_indices = array<i64: 0, 1>} : (tensor<2x32xf32>) -> tensor<2x31xf32>
  %5 = "jaxpr.sub"(%3, %4) : (tensor<2x31xf32>, tensor<2x31xf32>) -> tensor<2x31xf32>
  %6 = "jaxpr.slice"(%5) {limit_indices = array<i64: 2, 1>, start_indices = array<i64: 0, 0>} : (tensor<2x31xf32>) -> tensor<2x1xf32>
  %7 = "jaxpr.slice"(%5) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 0, 1>} : (tensor<2x31xf32>) -> tensor<2x1xf32>
  %8 = "jaxpr.mul"(%6, %7) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %9 = "jaxpr.reshape"(%8) {new_sizes = array<i64: 2>} : (tensor<2x1xf32>) -> tensor<2xf32>
  %10 = "jaxpr.slice"(%n) {limit_indices = array<i64: 32>, start_indices = array<i64: 0>} : (tensor<64xi32>) -> tensor<32xi32>
  %11 = "jaxpr.slice"(%n) {limit_indices = array<i64: 64>, start_indices = array<i64: 32>} : (tensor<64xi32>) -> tensor<32xi32>
  %12 = "jaxpr.add"(%10, %11) : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi32>
  %13 = "jaxpr.add"(%h, %2) : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<2x32xf32>
  return %13, %9, %12 : tensor<2x32xf32>, tensor<2xf32>, tensor<32xi32>
}

// Without a loop, the slices stay.
// CHECK-LABEL: func.func public @main
// CHECK-NOT:     jaxpr.split
// EXEC: result: f32[] = 9084.9
func.func public @main() -> tensor<f32> {
  %0 = "jaxpr.iota"() {dimension = 2 : i64, dtype = f32, shape = array<i64: 3, 2, 48>} : () -> tensor<3x2x48xf32>
  %1 = "jaxpr.sin"(%0) : (tensor<3x2x48xf32>) -> tensor<3x2x48xf32>
  %2 = "jaxpr.slice"(%1) {limit_indices = array<i64: 1, 2, 16>, start_indices = array<i64: 0, 0, 0>} : (tensor<3x2x48xf32>) -> tensor<1x2x16xf32>
  %3 = "jaxpr.reshape"(%2) {new_sizes = array<i64: 2, 16>} : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
  %4 = "jaxpr.scan"(%3, %1) {jaxpr = @step, length = 3 : i64, num_carry = 1 : i64, num_consts = 0 : i64} : (tensor<2x16xf32>, tensor<3x2x48xf32>) -> tensor<2x16xf32>
  %5 = "jaxpr.iota"() {dimension = 1 : i64, dtype = f32, shape = array<i64: 2, 32>} : () -> tensor<2x32xf32>
  %6 = "jaxpr.iota"() {dimension = 2 : i64, dtype = f32, shape = array<i64: 2, 4, 64>} : () -> tensor<2x4x64xf32>
  %7 = "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 2, 64>} : () -> tensor<2x64xi32>
  %8:3 = "jaxpr.scan"(%5, %6, %7) {jaxpr = @others, length = 2 : i64, num_carry = 1 : i64, num_consts = 0 : i64} : (tensor<2x32xf32>, tensor<2x4x64xf32>, tensor<2x64xi32>) -> (tensor<2x32xf32>, tensor<2x2xf32>, tensor<2x32xi32>)
  %9 = "jaxpr.reduce_sum"(%4) {axes = array<i64: 0, 1>} : (tensor<2x16xf32>) -> tensor<f32>
  %10 = "jaxpr.reduce_sum"(%8#0) {axes = array<i64: 0, 1>} : (tensor<2x32xf32>) -> tensor<f32>
  %11 = "jaxpr.add"(%9, %10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %11 : tensor<f32>
}
