// Values that are sorted by batched keys are batched with the keys.

// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=0,-1' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]], [10.0, 20.0, 30.0]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.vmap(%[[KEYS:.*]]: tensor<2x3xf32>, %[[ROW:.*]]: tensor<3xf32>)
// CHECK-NEXT:   %[[ROWS:.*]] = "jaxpr.broadcast_in_dim"(%[[ROW]])
// CHECK-NEXT:   "jaxpr.sort"(%[[KEYS]], %[[ROWS]]) {dimension = 1 : i64,

// EXEC:      result[0]: f32[2,3] = {{\[}}[1.0, 2.0, 3.0],
// EXEC-NEXT: [1.0, 2.0, 3.0]]
// EXEC-NEXT: result[1]: f32[2,3] = {{\[}}[20.0, 30.0, 10.0],
// EXEC-NEXT: [10.0, 30.0, 20.0]]
func.func public @f(%keys: tensor<3xf32>, %row: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0:2 = "jaxpr.sort"(%keys, %row) {dimension = 0 : i64, is_stable = true, num_keys = 1 : i64} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xf32>
}
