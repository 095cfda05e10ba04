// An update at different constant indices is inverted in part: the elements that it does not write are
// known, the updates follow from these elements, and then the updated elements follow.
//
//   y = x, y[3, 1] += sin(x[0, 2])        x[0, 2] = y[0, 2], x[3, 1] = y[3, 1] - sin(y[0, 2])

// RUN: jaxmlir-opt --jaxpr-inverse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[0.5, 1.997495, 1.5, 2.4794255]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<4xf32>) -> tensor<4xf32> {
// CHECK:        %[[KEPT:.*]] = "jaxpr.slice"(%[[Y]]) {{{.*}}start_indices = array<i64: 0>
// CHECK:        %[[SLICE:.*]] = "jaxpr.slice"(%[[Y]]) {{{.*}}start_indices = array<i64: 1>
// CHECK:        %[[ADDED:.*]] = "jaxpr.rev"(%[[SLICE]])
// CHECK:        %[[SIN:.*]] = "jaxpr.sin"(%[[KEPT]])
// CHECK:        "jaxpr.sub"(%[[ADDED]], %[[SIN]])
// CHECK-NOT:    jaxpr.scatter_add
// CHECK:        return

// EXEC: result: f32[4] = [0.5, {{1\.0|0\.99999|1\.00000}}{{[0-9]*}}, 1.5, {{2\.0|1\.99999|2\.00000}}{{[0-9]*}}]
func.func public @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4>, start_indices = array<i64: 0>, strides = array<i64: 2>} : (tensor<4xf32>) -> tensor<2xf32>
  %1 = "jaxpr.sin"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.constant"() {value = dense<[[3], [1]]> : tensor<2x1xi32>} : () -> tensor<2x1xi32>
  %3 = "jaxpr.scatter_add"(%x, %2, %1) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "FILL_OR_DROP"}, update_jaxpr = @add} : (tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
