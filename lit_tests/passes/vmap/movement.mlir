// Data movement ops move the batch dimension too, here from the last place. An operand that is not
// batched is repeated only where it has to be: for a concatenation.

// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=2,-1' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[[[1.0, 10.0], [2.0, 20.0]], [[3.0, 30.0], [4.0, 40.0]]], [5.0, 6.0]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.vmap(%[[X:.*]]: tensor<2x2x2xf32>, %[[Y:.*]]: tensor<2xf32>)
// CHECK-NEXT:   %[[T:.*]] = "jaxpr.transpose"(%[[X]]) {permutation = array<i64: 2, 1, 0>}
// CHECK-NEXT:   %[[ROW:.*]] = "jaxpr.reshape"(%[[Y]]) {new_sizes = array<i64: 1, 2>} : (tensor<2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:   %[[ROWS:.*]] = "jaxpr.broadcast_in_dim"(%[[ROW]]) {{.*}} : (tensor<1x2xf32>) -> tensor<2x1x2xf32>
// CHECK-NEXT:   "jaxpr.concatenate"(%[[T]], %[[ROWS]]) {dimension = 1 : i64} : (tensor<2x2x2xf32>, tensor<2x1x2xf32>) -> tensor<2x3x2xf32>

// EXEC:      result: f32[2,3,2] = {{\[\[}}[1.0, 3.0],
// EXEC-NEXT: [2.0, 4.0],
// EXEC-NEXT: [5.0, 6.0]],
// EXEC:      {{\[}}[10.0, 30.0],
// EXEC-NEXT: [20.0, 40.0],
// EXEC-NEXT: [5.0, 6.0]]]
func.func public @f(%x: tensor<2x2xf32>, %y: tensor<2xf32>) -> tensor<3x2xf32> {
  %0 = "jaxpr.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "jaxpr.reshape"(%y) {new_sizes = array<i64: 1, 2>} : (tensor<2xf32>) -> tensor<1x2xf32>
  %2 = "jaxpr.concatenate"(%0, %1) {dimension = 0 : i64} : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}
