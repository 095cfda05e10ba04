// Loop-invariant code motion: a loop-invariant value is computed before the loop, if it is worth storing.

// RUN: jaxmlir-opt --jaxpr-licm %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-licm %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[1.0, 0.5], [-0.5, 1.0]], [1.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 0.5], [-0.5, 1.0]], [1.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-licm --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// w w^T is loop-invariant and leaves the loop. So does the invariant part of the call.
// The outer product is quick to compute from two vectors, and slow to read: it stays.
// CHECK:      func.func public @main(%[[W:.*]]: tensor<2x2xf32>, %[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT:   %[[T:.*]] = "jaxpr.transpose"(%[[W]])
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.dot_general"(%[[W]], %[[T]])
// CHECK-NEXT:   %[[NORM:.*]] = "jaxpr.reduce_max"(%[[W]])
// CHECK-NEXT:   "jaxpr.scan"(%[[X]], %[[A]], %[[NORM]], %[[X]]) {jaxpr = @body, length = 3 : i64, num_carry = 1 : i64, num_consts = 3 : i64}
// CHECK:      func.func private @body(%[[V:.*]]: tensor<2xf32>, %[[A:.*]]: tensor<2x2xf32>, %[[NORM:.*]]: tensor<f32>, %[[C:.*]]: tensor<2xf32>)
// CHECK-NEXT:   %[[P:.*]] = "jaxpr.dot_general"(%[[A]], %[[C]])
// CHECK-NEXT:   "jaxpr.jit"(%[[P]], %[[NORM]]) {jaxpr = @scaled_0}
// CHECK:        %[[OUTER:.*]] = "jaxpr.mul"
// CHECK:      func.func private @scaled_0(%[[Y:.*]]: tensor<2xf32>, %[[NORM:.*]]: tensor<f32>)
// CHECK-NEXT:   "jaxpr.div"(%[[Y]], %[[NORM]])

// EXEC: result: f32[2] = [244.14062, 488.28125]

// REMARK-DAG: licm.mlir:{{[0-9]+}}:8: remark: [jaxpr-licm] moved out of the loop: 'jaxpr.dot_general' of 16 bytes is computed once, not 3 times
// REMARK-DAG: remark: [jaxpr-licm] moved out of the loop: 'jaxpr.reduce_max' of 4 bytes is computed once, not 3 times
func.func public @main(%w: tensor<2x2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.scan"(%w, %x, %x) {jaxpr = @body, length = 3 : i64, num_carry = 1 : i64, num_consts = 2 : i64} : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @body(%w: tensor<2x2xf32>, %v: tensor<2xf32>, %c: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "jaxpr.dot_general"(%w, %0) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = "jaxpr.dot_general"(%1, %c) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "jaxpr.jit"(%w, %2) {jaxpr = @scaled} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = "jaxpr.broadcast_in_dim"(%v) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 2, 1>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %5 = "jaxpr.broadcast_in_dim"(%v) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 1, 2>} : (tensor<2xf32>) -> tensor<1x2xf32>
  %6 = "jaxpr.mul"(%4, %5) : (tensor<2x1xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %7 = "jaxpr.dot_general"(%6, %3) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %7 : tensor<2xf32>
}
func.func private @scaled(%w: tensor<2x2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.reduce_max"(%w) {axes = array<i64: 0, 1>} : (tensor<2x2xf32>) -> tensor<f32>
  %1 = "jaxpr.div"(%y, %0) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
