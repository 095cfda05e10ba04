// eig: Eigenvalues of a general matrix, and the left and right eigenvectors that are asked for.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[2.0, 1.0], [0.0, 3.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.eig"(%{{.*}}) {compute_left_eigenvectors = false, compute_right_eigenvectors = false} : (tensor<2x2xf32>) -> tensor<2xcomplex<f32>>
// HLO: stablehlo.custom_call @lapack_sgeev_ffi(%{{.*}})
// EXEC: result: c64[2] = [(2+0j), (3+0j)]
func.func public @eig(%arg0: tensor<2x2xf32>) -> tensor<2xcomplex<f32>> {
  %0 = "jaxpr.eig"(%arg0) {compute_left_eigenvectors = false, compute_right_eigenvectors = false} : (tensor<2x2xf32>) -> tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}
