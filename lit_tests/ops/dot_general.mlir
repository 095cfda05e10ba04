// dot_general: Contraction of two arrays over contracting dimensions, one product for each batch
// index.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.dot_general"(%{{.*}}, %{{.*}}) {dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 0>], {{\[\[}}], []]]} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
// EXEC: result: f32[2,2] = {{\[\[}}19.0, 22.0],
// EXEC-NEXT: [43.0, 50.0]]
func.func public @dot_general(%arg0: tensor<2x2xf32>, %arg1: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = "jaxpr.dot_general"(%arg0, %arg1) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]]} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
