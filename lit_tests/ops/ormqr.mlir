// ormqr: c multiplied by the orthogonal matrix of packed reflectors; operands (a, tau, c).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 0.0], [0.5, 1.0]], [1.600000023841858, 0.0], [[1.0, 2.0], [3.0, 4.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.ormqr"(%{{.*}}, %{{.*}}, %{{.*}}) {left = true, transpose = false} : (tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.custom_call @lapack_sormqr_ffi(%{{.*}}, %{{.*}}, %{{.*}})
// EXEC: result: f32[2,2] = {{\[\[}}-3.0, -4.4],
// EXEC-NEXT: [1.0, 0.{{[0-9]*}}]]
func.func public @ormqr(%arg0: tensor<2x2xf32>, %arg1: tensor<2xf32>, %arg2: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = "jaxpr.ormqr"(%arg0, %arg1, %arg2) {left = true, transpose = false} : (tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
