// Factorizations take batches as they are.
//
//   [[4, 2], [2, 5]] = [[2, 0], [1, 2]] [[2, 1], [0, 2]]

// RUN: jaxmlir-opt --jaxpr-vmap=axis-size=2 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[[[4.0, 2.0], [2.0, 5.0]], [[1.0, 0.0], [0.0, 9.0]]]' | FileCheck %s --check-prefix=EXEC

// CHECK: func.func private @f.vmap(%[[A:.*]]: tensor<2x2x2xf32>)
// CHECK:   "jaxpr.cholesky"(%[[A]]) : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>

// EXEC:      result: f32[2] = [4.0, 3.0]
func.func public @f(%a: tensor<2x2xf32>) -> tensor<f32> {
  %0 = "jaxpr.cholesky"(%a) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "jaxpr.slice"(%0) {limit_indices = array<i64: 1, 1>, start_indices = array<i64: 0, 0>} : (tensor<2x2xf32>) -> tensor<1x1xf32>
  %2 = "jaxpr.slice"(%0) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 1, 1>} : (tensor<2x2xf32>) -> tensor<1x1xf32>
  %3 = "jaxpr.mul"(%1, %2) : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %4 = "jaxpr.reshape"(%3) {new_sizes = []} : (tensor<1x1xf32>) -> tensor<f32>
  return %4 : tensor<f32>
}
