// Fences: a loop that writes an array in place reads from it before the write, since XLA would copy the array in each step.

// RUN: jaxmlir-opt --jaxpr-materialize-shared %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-materialize-shared --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The backward step of y[i] = 2 y[i - 1]: a row is read, zeroed, and added to the row before.
// CHECK-LABEL: func.func private @step
// CHECK-SAME:    %[[CT:[^:]+]]: tensor<128x40xf32>, %[[I:[^:]+]]: tensor<i32>
// CHECK:         %[[ZEROS:.*]] = "jaxpr.broadcast_in_dim"
// CHECK-NEXT:    %[[ROW:.*]] = "jaxpr.dynamic_slice"(%[[CT]], %[[I]]
// CHECK-NEXT:    %[[FIRST:.*]]:2 = "jaxpr.{{jit|optimization_barrier}}"(%[[ROW]], %[[ZEROS]])
// CHECK-NEXT:    %[[ZEROED:.*]] = "jaxpr.dynamic_update_slice"(%[[CT]], %[[FIRST]]#1, %[[I]]
// CHECK-NEXT:    "jaxpr.add"(%[[FIRST]]#0, %[[FIRST]]#0)
// CHECK:         "jaxpr.dynamic_update_slice"(%[[ZEROED]]
// CHECK-NOT:     {{fence|optimization_barrier}}
// CHECK:         return
// REMARK: materialize-shared-reads.mlir:[[# @LINE + 5]]:{{[0-9]+}}: remark: [jaxpr-materialize-shared] ordered after the other reads of the array that it overwrites
func.func private @step(%ct: tensor<128x40xf32>, %i: tensor<i32>) -> tensor<128x40xf32> {
  %zero = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %nothing = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %zeros = "jaxpr.broadcast_in_dim"(%nothing) {broadcast_dimensions = [], shape = array<i64: 1, 40>} : (tensor<f32>) -> tensor<1x40xf32>
  %zeroed = "jaxpr.dynamic_update_slice"(%ct, %zeros, %i, %zero) : (tensor<128x40xf32>, tensor<1x40xf32>, tensor<i32>, tensor<i32>) -> tensor<128x40xf32>
  %row = "jaxpr.dynamic_slice"(%ct, %i, %zero) {slice_sizes = array<i64: 1, 40>} : (tensor<128x40xf32>, tensor<i32>, tensor<i32>) -> tensor<1x40xf32>
  %twice = "jaxpr.add"(%row, %row) : (tensor<1x40xf32>, tensor<1x40xf32>) -> tensor<1x40xf32>
  %one = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %before = "jaxpr.sub"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %own = "jaxpr.dynamic_slice"(%zeroed, %before, %zero) {slice_sizes = array<i64: 1, 40>} : (tensor<128x40xf32>, tensor<i32>, tensor<i32>) -> tensor<1x40xf32>
  %sum = "jaxpr.add"(%own, %twice) : (tensor<1x40xf32>, tensor<1x40xf32>) -> tensor<1x40xf32>
  %0 = "jaxpr.dynamic_update_slice"(%zeroed, %sum, %before, %zero) : (tensor<128x40xf32>, tensor<1x40xf32>, tensor<i32>, tensor<i32>) -> tensor<128x40xf32>
  return %0 : tensor<128x40xf32>
}

// EXEC:      result[0]: f32[] = 7.0
// EXEC-NEXT: result[1]: f32[] = 5280.0
func.func public @main() -> (tensor<f32>, tensor<f32>) {
  %one = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %ones = "jaxpr.broadcast_in_dim"(%one) {broadcast_dimensions = [], shape = array<i64: 128, 40>} : (tensor<f32>) -> tensor<128x40xf32>
  %is = "jaxpr.constant"() {value = dense<[5, 4]> : tensor<2xi32>} : () -> tensor<2xi32>
  %ct = "jaxpr.scan"(%ones, %is) {jaxpr = @step, length = 2 : i64, num_carry = 1 : i64} : (tensor<128x40xf32>, tensor<2xi32>) -> tensor<128x40xf32>
  %0 = "jaxpr.reduce_max"(%ct) {axes = array<i64: 0, 1>} : (tensor<128x40xf32>) -> tensor<f32>
  %1 = "jaxpr.reduce_sum"(%ct) {axes = array<i64: 0, 1>} : (tensor<128x40xf32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
