// Values that are joined, added up or written together are computed together.

// RUN: jaxmlir-opt --jaxpr-slp-vectorize %s -o %t
// RUN: jaxmlir-opt --jaxpr-canonicalize --jaxpr-dce %t | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-slp-vectorize %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt --jaxpr-slp-vectorize='min-gain=1000000' %s -o %t.dear
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.dear %t.same
// RUN: jaxmlir-run %s --entry rows --args '[[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 2.0], [3.0, 5.0], [0.5, -1.0]]' | FileCheck %s --check-prefix=ROWS
// RUN: jaxmlir-run %t --entry rows --args '[[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 2.0], [3.0, 5.0], [0.5, -1.0]]' | FileCheck %s --check-prefix=ROWS
// RUN: jaxmlir-run %s --entry windows --args '[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 10.0, 100.0], 0.25' | FileCheck %s --check-prefix=WINDOWS
// RUN: jaxmlir-run %t --entry windows --args '[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 10.0, 100.0], 0.25' | FileCheck %s --check-prefix=WINDOWS
// RUN: jaxmlir-run %s --entry written --args '[[1.0, 0.0], [0.0, 2.0], [3.0, 5.0], [0.5, -1.0]], [[1.0, 2.0], [3.0, 4.0]]' | FileCheck %s --check-prefix=WRITTEN
// RUN: jaxmlir-run %t --entry written --args '[[1.0, 0.0], [0.0, 2.0], [3.0, 5.0], [0.5, -1.0]], [[1.0, 2.0], [3.0, 4.0]]' | FileCheck %s --check-prefix=WRITTEN
// RUN: jaxmlir-opt --jaxpr-slp-vectorize --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// All rows of an array are the array itself.
// CHECK-LABEL: func.func public @rows
// CHECK-SAME:    (%[[W:.*]]: tensor<2x2xf32>, %[[X:.*]]: tensor<4x2xf32>)
// CHECK-NEXT:    %[[P:.*]] = "jaxpr.dot_general"(%[[W]], %[[X]]) {{.*}} -> tensor<2x4xf32>
// CHECK-NEXT:    %[[S:.*]] = "jaxpr.sin"(%[[P]])
// CHECK-NEXT:    %[[T:.*]] = "jaxpr.transpose"(%[[S]])
// CHECK-NEXT:    return %[[T]] : tensor<4x2xf32>

// ROWS:      result: f32[4,2] = {{\[\[}}0.84147096, 0.14112],
// ROWS-NEXT: [-0.7568025, 0.98935825],
// ROWS-NEXT: [0.42016703, -0.6636339],
// ROWS-NEXT: [-0.997495, -0.5984721]]

// REMARK: slp-vectorize.mlir:{{[0-9]+}}:9: remark: [jaxpr-slp-vectorize] packed 4 lanes of 3 ops into one batch with 2 inputs
// REMARK: slp-vectorize.mlir:{{[0-9]+}}:9: remark: [jaxpr-slp-vectorize] packed 4 lanes of 2 ops into one batch with 2 inputs
// REMARK: slp-vectorize.mlir:{{[0-9]+}}:9: remark: [jaxpr-slp-vectorize] packed 4 lanes of 2 ops into one batch with 2 inputs
func.func public @rows(%w: tensor<2x2xf32>, %x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 1, 2>, start_indices = array<i64: 0, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %1 = "jaxpr.squeeze"(%0) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.dot_general"(%w, %1) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "jaxpr.sin"(%2) : (tensor<2xf32>) -> tensor<2xf32>
  %4 = "jaxpr.slice"(%x) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 1, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %5 = "jaxpr.squeeze"(%4) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %6 = "jaxpr.dot_general"(%w, %5) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %7 = "jaxpr.sin"(%6) : (tensor<2xf32>) -> tensor<2xf32>
  %8 = "jaxpr.slice"(%x) {limit_indices = array<i64: 3, 2>, start_indices = array<i64: 2, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %9 = "jaxpr.squeeze"(%8) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %10 = "jaxpr.dot_general"(%w, %9) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %11 = "jaxpr.sin"(%10) : (tensor<2xf32>) -> tensor<2xf32>
  %12 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4, 2>, start_indices = array<i64: 3, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %13 = "jaxpr.squeeze"(%12) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %14 = "jaxpr.dot_general"(%w, %13) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %15 = "jaxpr.sin"(%14) : (tensor<2xf32>) -> tensor<2xf32>
  %16 = "jaxpr.stack"(%3, %7, %11, %15) {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  return %16 : tensor<4x2xf32>
}

// An array of overlapping windows is joined from as many parts as windows overlap.
// CHECK-LABEL: func.func public @windows
// CHECK-SAME:    (%[[X:.*]]: tensor<6xf32>, %[[K:.*]]: tensor<3xf32>, %[[START:.*]]: tensor<f32>)
// CHECK:         %[[ALL:.*]] = "jaxpr.concatenate"({{.*}}) {dimension = 1 : i64} : {{.*}} -> tensor<4x3xf32>
// CHECK:         %[[P:.*]] = "jaxpr.mul"(%[[ALL]],
// CHECK-NEXT:    %[[EACH:.*]] = "jaxpr.reduce_sum"(%[[P]]) {axes = array<i64: 1>}
// CHECK-NEXT:    %[[TOTAL:.*]] = "jaxpr.reduce_sum"(%[[EACH]]) {axes = array<i64: 0>}
// CHECK-NEXT:    %[[SUM:.*]] = "jaxpr.add"(%[[START]], %[[TOTAL]])
// CHECK-NEXT:    return %[[SUM]]

// WINDOWS: result: f32[] = 1950.25
func.func public @windows(%x: tensor<6xf32>, %k: tensor<3xf32>, %start: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 3>, start_indices = array<i64: 0>} : (tensor<6xf32>) -> tensor<3xf32>
  %1 = "jaxpr.mul"(%0, %k) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %2 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %3 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4>, start_indices = array<i64: 1>} : (tensor<6xf32>) -> tensor<3xf32>
  %4 = "jaxpr.mul"(%3, %k) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %5 = "jaxpr.reduce_sum"(%4) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %6 = "jaxpr.add"(%2, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %7 = "jaxpr.slice"(%x) {limit_indices = array<i64: 5>, start_indices = array<i64: 2>} : (tensor<6xf32>) -> tensor<3xf32>
  %8 = "jaxpr.mul"(%7, %k) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %9 = "jaxpr.reduce_sum"(%8) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %10 = "jaxpr.add"(%6, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %11 = "jaxpr.slice"(%x) {limit_indices = array<i64: 6>, start_indices = array<i64: 3>} : (tensor<6xf32>) -> tensor<3xf32>
  %12 = "jaxpr.mul"(%11, %k) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %13 = "jaxpr.reduce_sum"(%12) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %14 = "jaxpr.add"(%10, %13) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %15 = "jaxpr.add"(%start, %14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %15 : tensor<f32>
}

// Rows that are written one after another are written at once.
// CHECK-LABEL: func.func public @written
// CHECK-SAME:    (%[[X:.*]]: tensor<4x2xf32>, %[[W:.*]]: tensor<2x2xf32>)
// CHECK:         %[[P:.*]] = "jaxpr.dot_general"(%[[W]], %[[X]]) {{.*}} -> tensor<2x4xf32>
// CHECK:         %[[T:.*]] = "jaxpr.transpose"(%[[P]])
// CHECK:         %[[OUT:.*]] = "jaxpr.dynamic_update_slice"(%{{.*}}, %[[T]], %[[I:.*]], %[[I]])
// CHECK-NEXT:    return %[[OUT]]

// WRITTEN:      result: f32[5,2] = {{\[\[}}1.0, 3.0],
// WRITTEN-NEXT: [4.0, 8.0],
// WRITTEN-NEXT: [13.0, 29.0],
// WRITTEN-NEXT: [-1.5, -2.5],
// WRITTEN-NEXT: [0.0, 0.0]]
func.func public @written(%x: tensor<4x2xf32>, %w: tensor<2x2xf32>) -> tensor<5x2xf32> {
  %0 = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.broadcast_in_dim"(%0) {broadcast_dimensions = [], shape = array<i64: 5, 2>} : (tensor<f32>) -> tensor<5x2xf32>
  %2 = "jaxpr.slice"(%x) {limit_indices = array<i64: 1, 2>, start_indices = array<i64: 0, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %3 = "jaxpr.squeeze"(%2) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %4 = "jaxpr.dot_general"(%w, %3) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %6 = "jaxpr.broadcast_in_dim"(%5) {broadcast_dimensions = [], shape = array<i64: 1>} : (tensor<i32>) -> tensor<1xi32>
  %7 = "jaxpr.scatter"(%1, %6, %4) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = array<i64: 0>}}, indices_are_sorted = true, mode = {GatherScatterMode = "FILL_OR_DROP"}, unique_indices = true} : (tensor<5x2xf32>, tensor<1xi32>, tensor<2xf32>) -> tensor<5x2xf32>
  %8 = "jaxpr.slice"(%x) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 1, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %9 = "jaxpr.squeeze"(%8) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %10 = "jaxpr.dot_general"(%w, %9) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %11 = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %12 = "jaxpr.broadcast_in_dim"(%11) {broadcast_dimensions = [], shape = array<i64: 1>} : (tensor<i32>) -> tensor<1xi32>
  %13 = "jaxpr.scatter"(%7, %12, %10) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = array<i64: 0>}}, indices_are_sorted = true, mode = {GatherScatterMode = "FILL_OR_DROP"}, unique_indices = true} : (tensor<5x2xf32>, tensor<1xi32>, tensor<2xf32>) -> tensor<5x2xf32>
  %14 = "jaxpr.slice"(%x) {limit_indices = array<i64: 3, 2>, start_indices = array<i64: 2, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %15 = "jaxpr.squeeze"(%14) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %16 = "jaxpr.dot_general"(%w, %15) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %17 = "jaxpr.constant"() {value = dense<2> : tensor<i32>} : () -> tensor<i32>
  %18 = "jaxpr.broadcast_in_dim"(%17) {broadcast_dimensions = [], shape = array<i64: 1>} : (tensor<i32>) -> tensor<1xi32>
  %19 = "jaxpr.scatter"(%13, %18, %16) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = array<i64: 0>}}, indices_are_sorted = true, mode = {GatherScatterMode = "FILL_OR_DROP"}, unique_indices = true} : (tensor<5x2xf32>, tensor<1xi32>, tensor<2xf32>) -> tensor<5x2xf32>
  %20 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4, 2>, start_indices = array<i64: 3, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %21 = "jaxpr.squeeze"(%20) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %22 = "jaxpr.dot_general"(%w, %21) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %23 = "jaxpr.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %24 = "jaxpr.broadcast_in_dim"(%23) {broadcast_dimensions = [], shape = array<i64: 1>} : (tensor<i32>) -> tensor<1xi32>
  %25 = "jaxpr.scatter"(%19, %24, %22) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = array<i64: 0>}}, indices_are_sorted = true, mode = {GatherScatterMode = "FILL_OR_DROP"}, unique_indices = true} : (tensor<5x2xf32>, tensor<1xi32>, tensor<2xf32>) -> tensor<5x2xf32>
  return %25 : tensor<5x2xf32>
}
