// add_any: Sum of two cotangents, x + y; transposition accumulates cotangents by it.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.5, 2.5], [3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.add_any"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [4.5, 6.5]
func.func public @add_any(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.add_any"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
