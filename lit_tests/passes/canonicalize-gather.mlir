// Canonicalization of a gather of all pairs of rows and columns: the columns, and then rows of these.

// RUN: jaxmlir-opt --jaxpr-canonicalize %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s --args '[[0, 1, 2], [3, 4, 5]], [1, 0, 1], [2, 0, 1]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[0, 1, 2], [3, 4, 5]], [1, 0, 1], [2, 0, 1]' | FileCheck %s --check-prefix=EXEC

// CHECK:     func.func public @main(%[[X:.*]]: tensor<2x3xi32>, %[[I:.*]]: tensor<3xi32>, %[[J:.*]]: tensor<3xi32>)
// CHECK-DAG: %[[ROWS:.*]] = "jaxpr.broadcast_in_dim"(%[[I]]) {{.*}} -> tensor<3x1xi32>
// CHECK-DAG: %[[AT:.*]] = "jaxpr.broadcast_in_dim"(%[[J]]) {{.*}} -> tensor<3x1xi32>
// CHECK-DAG: %[[COLUMNS:.*]] = "jaxpr.gather"(%[[X]], %[[AT]]) {{.*}}slice_sizes = array<i64: 2, 1>{{.*}} -> tensor<2x3xi32>
// CHECK:     %[[PAIRS:.*]] = "jaxpr.gather"(%[[COLUMNS]], %[[ROWS]]) {{.*}}slice_sizes = array<i64: 1, 3>{{.*}} -> tensor<3x3xi32>
// CHECK:     return %[[PAIRS]]

// EXEC: result: i32[3,3] =
// EXEC-SAME: {{\[5, *3, *4]}}
func.func public @main(%x: tensor<2x3xi32>, %i: tensor<3xi32>, %j: tensor<3xi32>) -> tensor<3x3xi32> {
  %0 = "jaxpr.broadcast_in_dim"(%i) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 3, 3, 1>} : (tensor<3xi32>) -> tensor<3x3x1xi32>
  %1 = "jaxpr.broadcast_in_dim"(%j) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 3, 3, 1>} : (tensor<3xi32>) -> tensor<3x3x1xi32>
  %2 = "jaxpr.concatenate"(%0, %1) {dimension = 2 : i64} : (tensor<3x3x1xi32>, tensor<3x3x1xi32>) -> tensor<3x3x2xi32>
  %3 = "jaxpr.gather"(%x, %2) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = [], offset_dims = array<i64: 2, 3>, start_index_map = array<i64: 0, 1>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1, 1>} : (tensor<2x3xi32>, tensor<3x3x2xi32>) -> tensor<3x3x1x1xi32>
  %4 = "jaxpr.squeeze"(%3) {dimensions = array<i64: 2, 3>} : (tensor<3x3x1x1xi32>) -> tensor<3x3xi32>
  return %4 : tensor<3x3xi32>
}
