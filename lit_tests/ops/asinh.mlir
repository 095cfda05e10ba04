// asinh: Inverse hyperbolic sine, the y with sinh(y) = x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.asinh"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.asinh %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [0.4812{{[0-9]*}}, 2.0947{{[0-9]*}}]
func.func public @asinh(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.asinh"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
