// Canonicalization of gathers and scatters with indices that are known in part.

// RUN: jaxmlir-opt --target=tpu --jaxpr-canonicalize %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-canonicalize %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[0, 1, 2], [3, 4, 5]], [2, 9]' > %t.before
// RUN: jaxmlir-run %t --args '[[0, 1, 2], [3, 4, 5]], [2, 9]' > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after

func.func public @main(%x: tensor<2x3xi32>, %i: tensor<2xi32>) -> (tensor<2x2x1xi32>, tensor<2xi32>, tensor<2x3xi32>, tensor<2xi32>) {
  // CHECK: func.func public @main(%[[X:.*]]: tensor<2x3xi32>, %[[I:.*]]: tensor<2xi32>)
  %at = "jaxpr.broadcast_in_dim"(%i) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 2, 1>} : (tensor<2xi32>) -> tensor<2x1xi32>

  // gather(y, i) = broadcast_in_dim(y): a dimension of size 1 has only one index
  // CHECK-DAG: %[[Y:.*]] = "jaxpr.slice"(%[[X]])
  // CHECK-DAG: %[[ROWS:.*]] = "jaxpr.broadcast_in_dim"(%[[Y]]) {broadcast_dimensions = array<i64: 1, 2>, shape = array<i64: 2, 2, 1>}
  %0 = "jaxpr.slice"(%x) {start_indices = array<i64: 0, 1>, limit_indices = array<i64: 2, 2>} : (tensor<2x3xi32>) -> tensor<2x1xi32>
  %1 = "jaxpr.gather"(%0, %at) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = [], offset_dims = array<i64: 1, 2>, start_index_map = array<i64: 1>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 2, 1>} : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x2x1xi32>
  // EXEC: result[0]: {{.*}}[1]

  // gather(x, concatenate(iota, i)) = gather(x, i), batched: x[arange(2), i]
  // CHECK-DAG: %[[AT:.*]] = "jaxpr.broadcast_in_dim"(%[[I]])
  // CHECK-DAG: %[[ONES:.*]] = "jaxpr.gather"(%[[X]], %[[AT]]) {{.*}}collapsed_slice_dims = array<i64: 1>, {{.*}}operand_batching_dims = array<i64: 0>, start_index_map = array<i64: 1>, start_indices_batching_dims = array<i64: 0>
  %rows = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 2, 1>} : () -> tensor<2x1xi32>
  %2 = "jaxpr.concatenate"(%rows, %at) {dimension = 1 : i64} : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>
  %3 = "jaxpr.gather"(%x, %2) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0, 1>, offset_dims = [], start_index_map = array<i64: 0, 1>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1, 1>} : (tensor<2x3xi32>, tensor<2x2xi32>) -> tensor<2xi32>
  // EXEC: result[1]: {{.*}}[2, 5]

  // the same for x.at[arange(2), i].add(i), which drops indices out of bounds
  // CHECK-DAG: %[[ADDED:.*]] = "jaxpr.scatter_add"(%[[X]], %[[AT]], %[[I]]) {{.*}}operand_batching_dims = array<i64: 0>
  %4 = "jaxpr.scatter_add"(%x, %2, %i) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0, 1>, scatter_dims_to_operand_dims = array<i64: 0, 1>, update_window_dims = []}}, mode = {GatherScatterMode = "FILL_OR_DROP"}, update_jaxpr = @plus} : (tensor<2x3xi32>, tensor<2x2xi32>, tensor<2xi32>) -> tensor<2x3xi32>
  // EXEC: result[2]: {{.*}}[0, 1, 4]

  // gather(y, concatenate(iota, j)) = y on a TPU: the rows are taken in order
  // CHECK-DAG: %[[COLUMN:.*]] = "jaxpr.slice"(%[[X]]) {{.*}}start_indices = array<i64: 0, 0>
  // CHECK-DAG: %[[SAME:.*]] = "jaxpr.squeeze"(%[[COLUMN]])
  %5 = "jaxpr.slice"(%x) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2, 1>} : (tensor<2x3xi32>) -> tensor<2x1xi32>
  %6 = "jaxpr.gather"(%5, %2) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0, 1>, offset_dims = [], start_index_map = array<i64: 0, 1>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1, 1>} : (tensor<2x1xi32>, tensor<2x2xi32>) -> tensor<2xi32>
  // EXEC: result[3]: {{.*}}[0, 3]

  // CHECK: return %[[ROWS]], %[[ONES]], %[[ADDED]], %[[SAME]]
  return %1, %3, %4, %6 : tensor<2x2x1xi32>, tensor<2xi32>, tensor<2x3xi32>, tensor<2xi32>
}

func.func private @plus(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %0 = "jaxpr.add"(%a, %b) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}
