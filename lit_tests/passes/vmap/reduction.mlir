// Reductions and cumulative ops along an axis: the axis moves to make room for the batch dimension.
//
//   max and running sum of [[1, 5], [4, 2]] and [[0, 3], [7, 6]] along rows

// RUN: jaxmlir-opt --jaxpr-vmap=axis-size=2 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[[[1.0, 5.0], [4.0, 2.0]], [[0.0, 3.0], [7.0, 6.0]]]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.vmap(%[[X:.*]]: tensor<2x2x2xf32>)
// CHECK-NEXT:   "jaxpr.reduce_max"(%[[X]]) {axes = array<i64: 2>} : (tensor<2x2x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:   "jaxpr.cumsum"(%[[X]]) {axis = 2 : i64} : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>

// EXEC:      result[0]: f32[2,2] = {{\[}}[5.0, 4.0],
// EXEC-NEXT: [3.0, 7.0]]
// EXEC-NEXT: result[1]: f32[2,2,2] = {{\[\[}}[1.0, 6.0],
// EXEC-NEXT: [4.0, 6.0]],
// EXEC:      {{\[}}[0.0, 3.0],
// EXEC-NEXT: [7.0, 13.0]]]
func.func public @f(%x: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2x2xf32>) {
  %0 = "jaxpr.reduce_max"(%x) {axes = array<i64: 1>} : (tensor<2x2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.cumsum"(%x) {axis = 1 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2x2xf32>
}
