// eigh: Eigenvectors and eigenvalues of a Hermitian matrix, of which one triangle is read.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[4.0, 2.0], [2.0, 5.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.eigh"(%{{.*}}) {lower = true} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
// HLO: stablehlo.custom_call @lapack_ssyevd_ffi(%{{.*}})
// EXEC: result: f32[2] = [2.4384{{[0-9]*}}, 6.5615{{[0-9]*}}]
func.func public @eigh(%arg0: tensor<2x2xf32>) -> tensor<2xf32> {
  %0:2 = "jaxpr.eigh"(%arg0) {lower = true} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
  return %0#1 : tensor<2xf32>
}
