// scaled_dot: Contraction of block-scaled operands, (lhs * lhs_scale) . (rhs * rhs_scale).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 1.0, 1.0, 1.0]], [[1.0], [1.0], [1.0], [1.0]], [[2.0, 2.0]], [[4.0], [4.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.scaled_dot"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 0>], {{\[\[}}], []]], preferred_element_type = bf16} : (tensor<1x4xbf16>, tensor<4x1xbf16>, tensor<1x2xbf16>, tensor<2x1xbf16>) -> tensor<1x1xbf16>
// HLO: stablehlo.composite "xla.scaled_dot" %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}
// EXEC: result: bf16[1,1] = {{\[\[}}32]]
func.func public @scaled_dot(%arg0: tensor<1x4xbf16>, %arg1: tensor<4x1xbf16>, %arg2: tensor<1x2xbf16>, %arg3: tensor<2x1xbf16>) -> tensor<1x1xbf16> {
  %0 = "jaxpr.scaled_dot"(%arg0, %arg1, %arg2, %arg3) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = bf16} : (tensor<1x4xbf16>, tensor<4x1xbf16>, tensor<1x2xbf16>, tensor<2x1xbf16>) -> tensor<1x1xbf16>
  return %0 : tensor<1x1xbf16>
}
