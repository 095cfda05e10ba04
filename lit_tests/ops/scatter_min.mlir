// scatter_min: x with slices lowered, x[indices] = min(x[indices], updates).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0], [0, 2, 9], [5.0, 2.0, 7.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.scatter_min"(%{{.*}}, %{{.*}}, %{{.*}}) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "FILL_OR_DROP"}, update_jaxpr = @min} : (tensor<4xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4xf32>
// HLO: "stablehlo.scatter"(%{{.*}}, %{{.*}}, %{{.*}})
// HLO: stablehlo.minimum %{{.*}}, %{{.*}} : tensor<f32>
// EXEC: result: f32[4] = [1.0, 2.0, 2.0, 4.0]
func.func public @scatter_min(%arg0: tensor<4xf32>, %arg1: tensor<3xi32>, %arg2: tensor<3xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.broadcast_in_dim"(%arg1) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 3, 1>} : (tensor<3xi32>) -> tensor<3x1xi32>
  %1 = "jaxpr.scatter_min"(%arg0, %0, %arg2) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "FILL_OR_DROP"}, update_jaxpr = @min} : (tensor<4xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @min(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.min"(%arg0, %arg1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
