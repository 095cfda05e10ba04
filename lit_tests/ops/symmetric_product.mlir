// symmetric_product: alpha A A^T + beta C; operands (A, C).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.symmetric_product"(%{{.*}}, %{{.*}}) {alpha = 1.000000e+00 : f64, beta = 1.000000e+00 : f64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.transpose %{{.*}}, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2x2xf32>
// EXEC: result: f32[2,2] = {{\[\[}}6.0, 11.0],
// EXEC-NEXT: [11.0, 26.0]]
func.func public @symmetric_product(%arg0: tensor<2x2xf32>, %arg1: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = "jaxpr.symmetric_product"(%arg0, %arg1) {alpha = 1.000000e+00 : f64, beta = 1.000000e+00 : f64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
