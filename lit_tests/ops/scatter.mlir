// scatter: x with slices overwritten; operands (x, indices, updates).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0], [0, 2, 9], [5.0, 2.0, 7.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.scatter"(%{{.*}}, %{{.*}}, %{{.*}}) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "FILL_OR_DROP"}} : (tensor<4xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4xf32>
// HLO: "stablehlo.scatter"(%{{.*}}, %{{.*}}, %{{.*}})
// EXEC: result: f32[4] = [5.0, 2.0, 2.0, 4.0]
func.func public @scatter(%arg0: tensor<4xf32>, %arg1: tensor<3xi32>, %arg2: tensor<3xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.broadcast_in_dim"(%arg1) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 3, 1>} : (tensor<3xi32>) -> tensor<3x1xi32>
  %1 = "jaxpr.scatter"(%arg0, %0, %arg2) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "FILL_OR_DROP"}} : (tensor<4xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
