// bcoo_dot_general_sampled: The elements at BCOO indices of a contraction of dense arrays.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0], [2.0]], [[1.0, 10.0, 100.0]], [[0, 0], [0, 2], [1, 2]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcoo_dot_general_sampled"(%{{.*}}, %{{.*}}, %{{.*}}) {dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 0>], {{\[\[}}], []]]} : (tensor<2x1xf32>, tensor<1x3xf32>, tensor<3x2xi32>) -> tensor<3xf32>
// HLO: stablehlo.slice %{{.*}} [0:3, 0:1] : (tensor<3x2xi32>) -> tensor<3x1xi32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<3xi32>
// EXEC: result: f32[3] = [1.0, 100.0, 200.0]
func.func public @bcoo_dot_general_sampled(%arg0: tensor<2x1xf32>, %arg1: tensor<1x3xf32>, %arg2: tensor<3x2xi32>) -> tensor<3xf32> {
  %0 = "jaxpr.bcoo_dot_general_sampled"(%arg0, %arg1, %arg2) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]]} : (tensor<2x1xf32>, tensor<1x3xf32>, tensor<3x2xi32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
