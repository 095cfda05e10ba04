// real: Real part.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[(1+2j), (4-3j)]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.real"(%{{.*}}) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
// HLO: stablehlo.real %{{.*}} : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 4.0]
func.func public @real(%arg0: tensor<2xcomplex<f32>>) -> tensor<2xf32> {
  %0 = "jaxpr.real"(%arg0) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
