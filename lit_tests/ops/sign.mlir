// sign: Sign, x / |x|, and 0 at 0.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-2.0, 0.0, 3.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.sign"(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
// HLO: stablehlo.sign %{{.*}} : tensor<3xf32>
// EXEC: result: f32[3] = [-1.0, 0.0, 1.0]
func.func public @sign(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.sign"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
