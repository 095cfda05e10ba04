// abs: Absolute value, |x|; for a complex number, its modulus.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[(3+4j), (-2+0j)]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.abs"(%{{.*}}) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
// HLO: stablehlo.abs
// EXEC: result: f32[2] = [5.0, 2.0]
func.func public @abs(%arg0: tensor<2xcomplex<f32>>) -> tensor<2xf32> {
  %0 = "jaxpr.abs"(%arg0) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
