// cummin: Running minimum.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 3.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.cummin"(%{{.*}}) {axis = 0 : i64, reverse = true} : (tensor<3xf32>) -> tensor<3xf32>
// HLO: "stablehlo.reduce_window"(%{{.*}}, %{{.*}})
// HLO: stablehlo.minimum %{{.*}}, %{{.*}} : tensor<f32>
// EXEC: result: f32[3] = [1.0, 2.0, 2.0]
func.func public @cummin(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.cummin"(%arg0) {axis = 0 : i64, reverse = true} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
