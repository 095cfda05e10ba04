// schur: Schur form T with x = Z T Z^H, and Z if asked for.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[2.0, 1.0], [0.0, 3.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.schur"(%{{.*}}) {compute_schur_vectors = true, sort_eig_vals = false} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
// HLO: stablehlo.custom_call @lapack_sgees_ffi(%{{.*}})
// EXEC: result[0]: f32[2,2] = {{\[\[}}2.0, 1.0],
// EXEC-NEXT: [0.0, 3.0]]
// EXEC: result[1]: f32[2,2] = {{\[\[}}1.0, 0.0],
// EXEC-NEXT: [0.0, 1.0]]
func.func public @schur(%arg0: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %0:2 = "jaxpr.schur"(%arg0) {compute_schur_vectors = true, sort_eig_vals = false} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  return %0#0, %0#1 : tensor<2x2xf32>, tensor<2x2xf32>
}
