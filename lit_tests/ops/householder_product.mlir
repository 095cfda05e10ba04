// householder_product: The orthogonal matrix of packed reflectors; operands (a, tau).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 0.0], [0.5, 1.0]], [1.600000023841858, 0.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.householder_product"(%{{.*}}, %{{.*}}) : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.custom_call @lapack_sorgqr_ffi(%{{.*}}, %{{.*}})
// EXEC: result: f32[2,2] = {{\[\[}}-0.6, -0.8],
// EXEC-NEXT: [-0.8, 0.6]]
func.func public @householder_product(%arg0: tensor<2x2xf32>, %arg1: tensor<2xf32>) -> tensor<2x2xf32> {
  %0 = "jaxpr.householder_product"(%arg0, %arg1) : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
