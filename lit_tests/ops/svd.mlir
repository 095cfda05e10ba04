// svd: Singular values; with compute_uv also U and V^H.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.svd"(%{{.*}}) {compute_uv = false, full_matrices = true} : (tensor<2x2xf32>) -> tensor<2xf32>
// HLO: stablehlo.custom_call @lapack_sgesdd_ffi(%{{.*}})
// EXEC: result: f32[2] = [5.46{{[0-9]*}}, 0.36596{{[0-9]*}}]
func.func public @svd(%arg0: tensor<2x2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.svd"(%arg0) {compute_uv = false, full_matrices = true} : (tensor<2x2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
