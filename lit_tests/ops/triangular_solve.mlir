// triangular_solve: The x with a x = b (or x a = b), a triangular; operands (a, b).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[2.0, 0.0], [1.0, 4.0]], [[4.0], [10.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.triangular_solve"(%{{.*}}, %{{.*}}) {conjugate_a = false, left_side = true, lower = true, transpose_a = false, unit_diagonal = false} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
// HLO: stablehlo.custom_call @lapack_strsm_ffi(%{{.*}}, %{{.*}})
// EXEC: result: f32[2,1] = {{\[\[}}2.0],
// EXEC-NEXT: [2.0]]
func.func public @triangular_solve(%arg0: tensor<2x2xf32>, %arg1: tensor<2x1xf32>) -> tensor<2x1xf32> {
  %0 = "jaxpr.triangular_solve"(%arg0, %arg1) {conjugate_a = false, left_side = true, lower = true, transpose_a = false, unit_diagonal = false} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}
