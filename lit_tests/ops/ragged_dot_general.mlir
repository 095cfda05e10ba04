// ragged_dot_general: Contraction where a dimension of the left operand is cut into groups of
// run-time sizes, each with its own right operand.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[[1.0], [1.0]], [[1.0], [-1.0]]], [1, 2]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.ragged_dot_general"(%{{.*}}, %{{.*}}, %{{.*}}) {ragged_dot_dimension_numbers = {RaggedDotDimensionNumbers = {dot_dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 1>], {{\[\[}}], []]], lhs_ragged_dimensions = array<i64: 0>, rhs_group_dimensions = array<i64: 0>}}} : (tensor<3x2xf32>, tensor<2x2x1xf32>, tensor<2xi32>) -> tensor<3x1xf32>
// HLO: stablehlo.dot_general
// EXEC: result: f32[3,1] = {{\[\[}}3.0],
// EXEC-NEXT: [-1.0],
// EXEC-NEXT: [-1.0]]
func.func public @ragged_dot_general(%arg0: tensor<3x2xf32>, %arg1: tensor<2x2x1xf32>, %arg2: tensor<2xi32>) -> tensor<3x1xf32> {
  %0 = "jaxpr.ragged_dot_general"(%arg0, %arg1, %arg2) {ragged_dot_dimension_numbers = {RaggedDotDimensionNumbers = {dot_dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], lhs_ragged_dimensions = array<i64: 0>, rhs_group_dimensions = array<i64: 0>}}} : (tensor<3x2xf32>, tensor<2x2x1xf32>, tensor<2xi32>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}
