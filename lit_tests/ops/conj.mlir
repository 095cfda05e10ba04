// conj: Complex conjugate, x - iy; linear over the reals.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[(1+2j), (4-3j)]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.conj"(%{{.*}}) {input_dtype = complex<f32>} : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
// HLO: stablehlo.real %{{.*}} : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
// HLO: stablehlo.imag %{{.*}} : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
// HLO: stablehlo.negate %{{.*}} : tensor<2xf32>
// EXEC: result: c64[2] = [(1-2j), (4+3j)]
func.func public @conj(%arg0: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %0 = "jaxpr.conj"(%arg0) {input_dtype = complex<f32>} : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}
