// square: Square, x * x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-1.5, 0.5, 2.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.square"(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
// HLO: chlo.square %{{.*}} : tensor<3xf32> -> tensor<3xf32>
// EXEC: result: f32[3] = [2.25, 0.25, 6.25]
func.func public @square(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.square"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
