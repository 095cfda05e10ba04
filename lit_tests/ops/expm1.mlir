// expm1: e ** x - 1, accurate near 0.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[9.999999974752427e-07, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.expm1"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.exponential_minus_one %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [1.{{[0-9]*}}e-06, 1.7182{{[0-9]*}}]
func.func public @expm1(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.expm1"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
