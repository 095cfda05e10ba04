// atanh: Inverse hyperbolic tangent, the y with tanh(y) = x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-0.5, 0.25]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.atanh"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.atanh %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [-0.54930{{[0-9]*}}, 0.25541{{[0-9]*}}]
func.func public @atanh(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.atanh"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
