// gather: Slices of the first operand at the indices in the second; the mode says what happens to
// indices out of bounds.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0], [2, 0, 9]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.gather"(%{{.*}}, %{{.*}}) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = [], start_index_map = array<i64: 0>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<3x1xi32>) -> tensor<3xf32>
// HLO: "stablehlo.gather"(%{{.*}}, %{{.*}})
// EXEC: result: f32[3] = [3.0, 1.0, 4.0]
func.func public @gather(%arg0: tensor<4xf32>, %arg1: tensor<3xi32>) -> tensor<3xf32> {
  %0 = "jaxpr.broadcast_in_dim"(%arg1) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 3, 1>} : (tensor<3xi32>) -> tensor<3x1xi32>
  %1 = "jaxpr.gather"(%arg0, %0) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = [], start_index_map = array<i64: 0>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<3x1xi32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
