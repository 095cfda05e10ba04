// tridiagonal: Tridiagonal form of a Hermitian matrix: packed reflectors, diagonal, off-diagonal,
// tau.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[2.0, 3.0, 4.0], [3.0, 1.0, 5.0], [4.0, 5.0, 6.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.tridiagonal"(%{{.*}}) {lower = true} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>)
// HLO: stablehlo.custom_call @lapack_ssytrd_ffi(%{{.*}})
// EXEC: result[0]: f32[3,3] = {{\[\[}}2.0, 3.0, 4.0],
// EXEC-NEXT: [-5.0, 9.{{[0-9]*}}, 5.0],
// EXEC-NEXT: [0.5, -0.{{[0-9]*}}, -2.0]]
// EXEC: result[1]: f32[3] = [2.0, 9.{{[0-9]*}}, -2.0]
// EXEC: result[2]: f32[2] = [-5.0, -0.{{[0-9]*}}]
// EXEC: result[3]: f32[2] = [1.6, 0.0]
func.func public @tridiagonal(%arg0: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0:4 = "jaxpr.tridiagonal"(%arg0) {lower = true} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<3x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>
}
