// qr: QR factorisation: Q and R; with pivoting the permutation too.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[3.0, 1.0], [4.0, 2.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.qr"(%{{.*}}) {full_matrices = false} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
// HLO: stablehlo.custom_call @lapack_sgeqrf_ffi(%{{.*}})
// HLO: stablehlo.custom_call @lapack_sorgqr_ffi(%{{.*}}, %{{.*}})
// EXEC: result[0]: f32[2,2] = {{\[\[}}-0.6, -0.8],
// EXEC-NEXT: [-0.8, 0.6]]
// EXEC: result[1]: f32[2,2] = {{\[\[}}-5.0, -2.2],
// EXEC-NEXT: [0.0, 0.{{[0-9]*}}]]
func.func public @qr(%arg0: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %0:2 = "jaxpr.qr"(%arg0) {full_matrices = false} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  return %0#0, %0#1 : tensor<2x2xf32>, tensor<2x2xf32>
}
