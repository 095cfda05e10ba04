// imag: Imaginary part.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[(1+2j), (4-3j)]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.imag"(%{{.*}}) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
// HLO: stablehlo.imag %{{.*}} : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
// EXEC: result: f32[2] = [2.0, -3.0]
func.func public @imag(%arg0: tensor<2xcomplex<f32>>) -> tensor<2xf32> {
  %0 = "jaxpr.imag"(%arg0) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
