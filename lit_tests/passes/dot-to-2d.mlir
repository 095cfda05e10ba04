// Dimensions that a product treats alike are merged into one.

// RUN: jaxmlir-opt --jaxpr-dot-to-2d %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-dot-to-2d %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-opt --jaxpr-dot-to-2d %t | diff %t -
// RUN: jaxmlir-run %s --args '[[1.0, 2.0]], [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0]], [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-dot-to-2d --remarks=all %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: dot-to-2d.mlir:{{[0-9]+}}:8: remark: [jaxpr-dot-to-2d] merged dimensions: its operands have 2 and 2 dimensions
// REMARK: remark: [jaxpr-dot-to-2d] removed the transpose of an operand
// REMARK: remark: [jaxpr-dot-to-2d] swapped its operands, which saves transposing the result
// REMARK: remark: [jaxpr-dot-to-2d] summed in the shape of 2 dimensions in which other ops read the array

// CHECK-LABEL: func.func public @main
// CHECK:         %[[W:.*]] = "jaxpr.reshape"(%arg1) {new_sizes = array<i64: 2, 4>}
// CHECK:         %[[Y:.*]] = "jaxpr.dot_general"(%arg0, %[[W]]) {dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 0>]
// CHECK:         "jaxpr.reshape"(%[[Y]]) {new_sizes = array<i64: 1, 2, 2>}
// CHECK:         "jaxpr.dot_general"({{.*}}) {dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 1>]{{.*}} : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
// CHECK:         "jaxpr.dot_general"(%[[LAST:.*]], %arg1) {{.*}}tensor<1x2x2xf32>, tensor<2x2x2xf32>
// A transpose of an operand becomes a choice of the contracting dimension.
// CHECK-NOT:     "jaxpr.transpose"
// CHECK:         "jaxpr.dot_general"(%[[T:.*]], %arg0) {dimension_numbers = {{\[\[}}array<i64: 0>, array<i64: 1>]{{.*}} : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x1xf32>
// A transpose of the result becomes a swap of the two operands.
// CHECK-NEXT:    %[[M:.*]] = "jaxpr.reshape"(%{{[0-9]+}}) {new_sizes = array<i64: 1, 4>}
// CHECK-NEXT:    %[[N:.*]] = "jaxpr.reshape"(%arg1) {new_sizes = array<i64: 2, 4>}
// CHECK-NEXT:    "jaxpr.dot_general"(%[[M]], %[[N]]) {dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 1>]{{.*}} -> tensor<1x2xf32>
// CHECK-NEXT:    %[[O:.*]] = "jaxpr.reshape"(%arg1) {new_sizes = array<i64: 2, 4>}
// CHECK-NEXT:    "jaxpr.reduce_sum"(%[[O]]) {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>

// EXEC:      result[0]: f32[1,2,2] = {{\[\[\[}}11.0, 14.0],
// EXEC-NEXT: [17.0, 20.0]]]
// EXEC: result[1]: f32[1,2] = {{\[\[}}170.0, 418.0]]
// EXEC: result[2]: f32[1,2] = {{\[\[}}167.0, 415.0]]
// EXEC: result[3]: f32[2,1] = {{\[\[}}45.0],
// EXEC-NEXT: [54.0]]
// EXEC: result[4]: f32[1,2] = {{\[\[}}170.0, 418.0]]
// EXEC: result[5]: f32[2] = [10.0, 26.0]
func.func public @main(%x: tensor<1x2xf32>, %w: tensor<2x2x2xf32>) -> (tensor<1x2x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<2x1xf32>, tensor<1x2xf32>, tensor<2xf32>) {
  // Two dimensions of the weights become one dimension of columns.
  %y = "jaxpr.dot_general"(%x, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<1x2xf32>, tensor<2x2x2xf32>) -> tensor<1x2x2xf32>
  // Two contracting dimensions, in the same order in both operands.
  %z = "jaxpr.dot_general"(%y, %w) {dimension_numbers = [[array<i64: 1, 2>, array<i64: 1, 2>], [[], []]], preferred_element_type = f32} : (tensor<1x2x2xf32>, tensor<2x2x2xf32>) -> tensor<1x2xf32>
  // Two contracting dimensions, in different orders.
  %t = "jaxpr.dot_general"(%y, %w) {dimension_numbers = [[array<i64: 1, 2>, array<i64: 2, 1>], [[], []]], preferred_element_type = f32} : (tensor<1x2x2xf32>, tensor<2x2x2xf32>) -> tensor<1x2xf32>
  %matrix = "jaxpr.reshape"(%y) {new_sizes = array<i64: 2, 2>} : (tensor<1x2x2xf32>) -> tensor<2x2xf32>
  %columns = "jaxpr.transpose"(%matrix) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = "jaxpr.dot_general"(%columns, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x1xf32>
  // The transpose puts the dimensions of the second operand first, then the dimensions of the first operand.
  %v = "jaxpr.dot_general"(%w, %y) {dimension_numbers = [[array<i64: 1, 2>, array<i64: 1, 2>], [[], []]], preferred_element_type = f32} : (tensor<2x2x2xf32>, tensor<1x2x2xf32>) -> tensor<2x1xf32>
  %row = "jaxpr.transpose"(%v) {permutation = array<i64: 1, 0>} : (tensor<2x1xf32>) -> tensor<1x2xf32>
  // A product reads the summed array as a matrix.
  %s = "jaxpr.reduce_sum"(%w) {axes = array<i64: 1, 2>} : (tensor<2x2x2xf32>) -> tensor<2xf32>
  return %y, %z, %t, %u, %row, %s : tensor<1x2x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<2x1xf32>, tensor<1x2xf32>, tensor<2xf32>
}

// A transpose that moves a batch dimension to the front stays: XLA would write it for each product.
// CHECK-LABEL: func.func private @batch(
// CHECK:         %[[T:.*]] = "jaxpr.transpose"(%arg0)
// CHECK:         "jaxpr.dot_general"(%[[T]], %arg1)
func.func private @batch(%x: tensor<3x2x4xf32>, %y: tensor<4x2x5xf32>) -> tensor<4x3x5xf32> {
  %0 = "jaxpr.transpose"(%x) {permutation = array<i64: 2, 0, 1>} : (tensor<3x2x4xf32>) -> tensor<4x3x2xf32>
  %1 = "jaxpr.dot_general"(%0, %y) {dimension_numbers = [[array<i64: 2>, array<i64: 1>], [array<i64: 0>, array<i64: 0>]], preferred_element_type = f32} : (tensor<4x3x2xf32>, tensor<4x2x5xf32>) -> tensor<4x3x5xf32>
  return %1 : tensor<4x3x5xf32>
}
