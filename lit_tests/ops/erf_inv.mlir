// erf_inv: Inverse error function, the y with erf(y) = x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-0.5, 0.25]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.erf_inv"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.erf_inv %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [-0.47693{{[0-9]*}}, 0.22531{{[0-9]*}}]
func.func public @erf_inv(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.erf_inv"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
