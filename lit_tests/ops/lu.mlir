// lu: LU factorisation with row pivoting: the packed factors, the pivots, the permutation.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.lu"(%{{.*}}) : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<2xi32>)
// HLO: stablehlo.custom_call @lapack_sgetrf_ffi(%{{.*}})
// EXEC: result[0]: f32[2,2] = {{\[\[}}3.0, 4.0],
// EXEC-NEXT: [0.33333{{[0-9]*}}, 0.66666{{[0-9]*}}]]
// EXEC: result[1]: i32[2] = [1, 1]
// EXEC: result[2]: i32[2] = [1, 0]
func.func public @lu(%arg0: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<2xi32>) {
  %0:3 = "jaxpr.lu"(%arg0) : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<2xi32>)
  return %0#0, %0#1, %0#2 : tensor<2x2xf32>, tensor<2xi32>, tensor<2xi32>
}
