// A JAX rule may check less than StableHLO requires: StableHLO requires one source value for each
// window, and there are five windows here.

// RUN: not jaxmlir-opt --jaxpr-legalize-to-stablehlo %s 2>&1 | FileCheck %s
// RUN: not jaxmlir-run --args '[1.],[1.,2.,3.,4.,5.]' %s 2>&1 | FileCheck %s

// CHECK: no-valid-stablehlo.mlir:[[# @LINE + 2]]:8: error: 'jaxpr.select_and_scatter_add' op cannot be lowered: its lowering rule gives invalid StableHLO: expects source-type to be 'tensor<5xf32>', but got'tensor<1xf32>'
func.func public @f(%source: tensor<1xf32>, %operand: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "jaxpr.select_and_scatter_add"(%source, %operand) {padding = [array<i64: 0, 0>], select_prim = {primitive = "ge"}, window_dimensions = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1xf32>, tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
