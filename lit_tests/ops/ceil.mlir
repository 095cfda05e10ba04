// ceil: The smallest integer >= x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-1.5, 0.5, 2.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.ceil"(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
// HLO: stablehlo.ceil %{{.*}} : tensor<3xf32>
// EXEC: result: f32[3] = [-1.0, 1.0, 3.0]
func.func public @ceil(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.ceil"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
