// one_minus_square: 1 - x * x, without cancellation near |x| = 1.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-1.5, 0.5, 2.5]' | FileCheck %s --check-prefix=EXEC
// REQUIRES: jax-0.11 || jax-0.12

// CHECK: "jaxpr.one_minus_square"(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<3xf32>
// HLO: stablehlo.subtract %{{.*}}, %{{.*}} : tensor<3xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<3xf32>
// EXEC: result: f32[3] = [-1.25, 0.75, -5.25]
func.func public @one_minus_square(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.one_minus_square"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
