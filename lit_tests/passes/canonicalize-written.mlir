// Canonicalization of arrays that are written part by part: a read takes the value that was last
// written there, or else the value of the array before the writes.

// RUN: jaxmlir-opt --jaxpr-canonicalize %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-canonicalize %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[0, 1], [2, 3], [4, 5]], [7, 8]' > %t.before
// RUN: jaxmlir-run %t --args '[[0, 1], [2, 3], [4, 5]], [7, 8]' > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after

func.func public @main(%x: tensor<3x2xi32>, %v: tensor<2xi32>) -> (tensor<1x2xi32>, tensor<1x1xi32>, tensor<2x2xi32>, tensor<1x2xi32>, tensor<3x1xi32>) {
  // CHECK: func.func public @main(%[[X:.*]]: tensor<3x2xi32>, %[[V:.*]]: tensor<2xi32>)
  // CHECK: %[[WRITTEN:.*]] = "jaxpr.scatter"(%[[X]],
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %c0 = "jaxpr.broadcast_in_dim"(%0) {broadcast_dimensions = [], shape = array<i64: 1>} : (tensor<i32>) -> tensor<1xi32>
  %1 = "jaxpr.scatter"(%x, %c0, %v) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = array<i64: 0>}}, indices_are_sorted = true, mode = {GatherScatterMode = "FILL_OR_DROP"}, unique_indices = true} : (tensor<3x2xi32>, tensor<1xi32>, tensor<2xi32>) -> tensor<3x2xi32>

  // x.at[0].set(v)[0:1] = reshape(v)
  // CHECK-NEXT: %[[ROW:.*]] = "jaxpr.reshape"(%[[V]]) {new_sizes = array<i64: 1, 2>}
  // EXEC: result[0]: {{.*}}[7, 8]
  %2 = "jaxpr.slice"(%1) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 2>} : (tensor<3x2xi32>) -> tensor<1x2xi32>

  // x.at[0].set(v)[0:1, 1:2] = reshape(v)[0:1, 1:2]
  // CHECK: %[[ELEMENT:.*]] = "jaxpr.slice"(%{{.*}}) {limit_indices = array<i64: 1, 2>, start_indices = array<i64: 0, 1>} : (tensor<1x2xi32>)
  // EXEC: result[1]: {{.*}}[8]
  %3 = "jaxpr.slice"(%1) {start_indices = array<i64: 0, 1>, limit_indices = array<i64: 1, 2>} : (tensor<3x2xi32>) -> tensor<1x1xi32>

  // x.at[0].set(v)[1:3] = x[1:3]
  // CHECK-NEXT: %[[REST:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 3, 2>, start_indices = array<i64: 1, 0>}
  // EXEC: result[2]: {{.*}}[2, 3]
  %4 = "jaxpr.slice"(%1) {start_indices = array<i64: 1, 0>, limit_indices = array<i64: 3, 2>} : (tensor<3x2xi32>) -> tensor<2x2xi32>

  // The same through a second write to another row.
  %5 = "jaxpr.constant"() {value = dense<2> : tensor<i32>} : () -> tensor<i32>
  %6 = "jaxpr.dynamic_update_slice"(%1, %2, %5, %0) : (tensor<3x2xi32>, tensor<1x2xi32>, tensor<i32>, tensor<i32>) -> tensor<3x2xi32>
  // CHECK: %[[MIDDLE:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 1, 0>}
  // EXEC: result[3]: {{.*}}[2, 3]
  %7 = "jaxpr.slice"(%6) {start_indices = array<i64: 1, 0>, limit_indices = array<i64: 2, 2>} : (tensor<3x2xi32>) -> tensor<1x2xi32>

  // A column reads from all rows, so it is read from the array.
  // CHECK: %[[COLUMN:.*]] = "jaxpr.slice"(%{{.*}}) {limit_indices = array<i64: 3, 1>, start_indices = array<i64: 0, 0>}
  // EXEC: result[4]: {{.*}}[7]
  // EXEC-NEXT: [2]
  // EXEC-NEXT: [7]
  %8 = "jaxpr.slice"(%6) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 3, 1>} : (tensor<3x2xi32>) -> tensor<3x1xi32>

  // CHECK-NEXT: return %[[ROW]], %[[ELEMENT]], %[[REST]], %[[MIDDLE]], %[[COLUMN]]
  return %2, %3, %4, %7, %8 : tensor<1x2xi32>, tensor<1x1xi32>, tensor<2x2xi32>, tensor<1x2xi32>, tensor<3x1xi32>
}
