// cumprod: Running product, y[i] = x[0] * ... * x[i].

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 3.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.cumprod"(%{{.*}}) {axis = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32>
// HLO: "stablehlo.reduce_window"(%{{.*}}, %{{.*}})
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<f32>
// EXEC: result: f32[3] = [1.0, 3.0, 6.0]
func.func public @cumprod(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.cumprod"(%arg0) {axis = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
