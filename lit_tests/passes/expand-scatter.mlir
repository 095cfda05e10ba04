// A scatter of one element to each row of a constant array becomes a comparison of indices.

// RUN: jaxmlir-opt --jaxpr-expand-scatter %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-expand-scatter=max-length=2 %s -o %t.small
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-scatter %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.small %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[[1], [7]], [2.0, 3.0], [[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1], [7]], [2.0, 3.0], [[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-expand-scatter --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-scatter.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-scatter] expanded into comparisons: it updates one of 3 elements in each row
// REMARK: expand-scatter.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-scatter] expanded into comparisons: it updates one of 3 elements in each row
// REMARK-NOT: remark

// If an index is out of bounds, "CLIP" takes the last element, and "FILL_OR_DROP" takes no element.
// EXEC: result[0]: f32[2,3] = {{.*}}[1.0, 3.0, 1.0]
// EXEC-NEXT: [1.0, 1.0, 4.0]
// EXEC: result[1]: f32[2,3] = {{.*}}[1.0, 2.0, 1.0]
// EXEC-NEXT: [1.0, 1.0, 1.0]
// EXEC: result[2]: f32[2,3] = {{.*}}[5.0, 2.0, 7.0]
// EXEC-NEXT: [8.0, 9.0, 10.0]

// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[I:.*]]: tensor<2x1xi32>, %[[U:.*]]: tensor<2xf32>, %[[X:.*]]: tensor<2x3xf32>)
func.func public @main(%i: tensor<2x1xi32>, %u: tensor<2xf32>, %x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %c = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %ones = "jaxpr.broadcast_in_dim"(%c) {broadcast_dimensions = [], shape = array<i64: 2, 3>} : (tensor<f32>) -> tensor<2x3xf32>

  // CHECK:         %[[INSIDE:.*]] = "jaxpr.clamp"
  // CHECK:         %[[PLACE:.*]] = "jaxpr.broadcast_in_dim"(%[[INSIDE]])
  // CHECK:         "jaxpr.add"
  // CHECK:         %[[HERE:.*]] = "jaxpr.eq"({{.*}}, %[[PLACE]])
  // CHECK:         %[[ADDED:.*]] = "jaxpr.select_n"(%[[HERE]]
  %0 = "jaxpr.scatter_add"(%ones, %i, %u) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 1>, operand_batching_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 1>, scatter_indices_batching_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "CLIP"}, update_jaxpr = @plus} : (tensor<2x3xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<2x3xf32>

  // CHECK-NOT:     "jaxpr.clamp"
  // CHECK:         %[[SET:.*]] = "jaxpr.select_n"
  %1 = "jaxpr.scatter"(%ones, %i, %u) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 1>, operand_batching_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 1>, scatter_indices_batching_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "FILL_OR_DROP"}} : (tensor<2x3xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<2x3xf32>

  // The scatter stays if the array exists already: it need not be written as a whole.
  // CHECK:         %[[SCATTERED:.*]] = "jaxpr.scatter"(%[[X]], %[[I]], %[[U]])
  %2 = "jaxpr.scatter"(%x, %i, %u) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 1>, operand_batching_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 1>, scatter_indices_batching_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "FILL_OR_DROP"}} : (tensor<2x3xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<2x3xf32>

  // CHECK:         return %[[ADDED]], %[[SET]], %[[SCATTERED]]
  return %0, %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

func.func private @plus(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
