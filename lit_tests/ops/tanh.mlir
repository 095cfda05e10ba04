// tanh: Hyperbolic tangent, sinh(x) / cosh(x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.tanh"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.tanh %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [0.46211{{[0-9]*}}, 0.9993{{[0-9]*}}]
func.func public @tanh(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.tanh"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
