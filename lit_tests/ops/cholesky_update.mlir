// cholesky_update: Upper triangular factor of R^T R + w w^T; operands (R, w).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[2.0, 1.0], [0.0, 2.0]], [1.0, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.cholesky_update"(%{{.*}}, %{{.*}}) : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.slice %{{.*}} [0:1, 0:1] : (tensor<2x2xf32>) -> tensor<1x1xf32>
// HLO: stablehlo.slice %{{.*}} [0:1] : (tensor<2xf32>) -> tensor<1xf32>
// HLO: stablehlo.compare EQ, %{{.*}}, %{{.*}}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
// EXEC: result: f32[2,2] = {{\[\[}}2.2360{{[0-9]*}}, 1.3416{{[0-9]*}}],
// EXEC-NEXT: [0.0, 2.0493{{[0-9]*}}]]
func.func public @cholesky_update(%arg0: tensor<2x2xf32>, %arg1: tensor<2xf32>) -> tensor<2x2xf32> {
  %0 = "jaxpr.cholesky_update"(%arg0, %arg1) : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
