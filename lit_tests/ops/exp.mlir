// exp: Exponential, e ** x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.0, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.exp"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.exponential %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 2.7182{{[0-9]*}}]
func.func public @exp(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.exp"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
