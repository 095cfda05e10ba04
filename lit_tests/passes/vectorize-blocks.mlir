// Blocks of the same ops on different values, one after another, become one block on a batch.

// RUN: jaxmlir-opt --jaxpr-vectorize-blocks %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-vectorize-blocks %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt --jaxpr-vectorize-blocks='min-gain=1000000' %s -o %t.dear
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.dear %t.same
// RUN: jaxmlir-run %s --entry main --args '[[1.0, 2.0], [3.0, 4.0]], [0.5, -30.0], [[1.0, 0.0], [0.0, 2.0], [3.0, 5.0]], 100.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --entry main --args '[[1.0, 2.0], [3.0, 4.0]], [0.5, -30.0], [[1.0, 0.0], [0.0, 2.0], [3.0, 5.0]], 100.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %s --entry images --args '[[[1.0], [2.0], [3.0]], [[10.0], [20.0], [30.0]], [[0.0], [1.0], [0.0]]], [[[1.0]], [[10.0]]], 0.5' | FileCheck %s --check-prefix=IMAGES
// RUN: jaxmlir-run %t --entry images --args '[[[1.0], [2.0], [3.0]], [[10.0], [20.0], [30.0]], [[0.0], [1.0], [0.0]]], [[[1.0]], [[10.0]]], 0.5' | FileCheck %s --check-prefix=IMAGES
// RUN: jaxmlir-opt --jaxpr-vectorize-blocks --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// Three examples are multiplied by the same matrix and added up. The additions to the total depend on
// one another, and stay; the added values are summed at once.
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[W:.*]]: tensor<2x2xf32>, %[[B:.*]]: tensor<2xf32>, %[[ROWS:.*]]: tensor<3x2xf32>, %[[START:.*]]: tensor<f32>)
// CHECK:         %[[P:.*]] = "jaxpr.dot_general"(%[[W]], %[[ROWS]]) {{.*}} -> tensor<2x3xf32>
// CHECK:         %[[M:.*]] = "jaxpr.max"
// CHECK:         %[[EACH:.*]] = "jaxpr.reduce_sum"(%[[M]])
// CHECK-NEXT:    %[[ALL:.*]] = "jaxpr.reduce_sum"(%[[EACH]]) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
// CHECK-NEXT:    %[[TOTAL:.*]] = "jaxpr.add"(%[[START]], %[[ALL]])
// CHECK-NEXT:    return %[[TOTAL]]

// REMARK: vectorize-blocks.mlir:{{[0-9]+}}:9: remark: [jaxpr-vectorize-blocks] batched 3 independent blocks of 4 ops into one, with 3 inputs and 1 output

// EXEC: result: f32[] = 126.5
func.func public @main(%w: tensor<2x2xf32>, %b: tensor<2xf32>, %rows: tensor<3x2xf32>, %start: tensor<f32>) -> tensor<f32> {
  %s0 = "jaxpr.slice"(%rows) {limit_indices = array<i64: 1, 2>, start_indices = array<i64: 0, 0>} : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %r0 = "jaxpr.squeeze"(%s0) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %p0 = "jaxpr.dot_general"(%w, %r0) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %a0 = "jaxpr.add"(%p0, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %m0 = "jaxpr.max"(%a0, %r0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %q0 = "jaxpr.reduce_sum"(%m0) {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %t0 = "jaxpr.add"(%start, %q0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %s1 = "jaxpr.slice"(%rows) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %r1 = "jaxpr.squeeze"(%s1) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %p1 = "jaxpr.dot_general"(%w, %r1) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %a1 = "jaxpr.add"(%p1, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %m1 = "jaxpr.max"(%a1, %r1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %q1 = "jaxpr.reduce_sum"(%m1) {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %t1 = "jaxpr.add"(%t0, %q1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %s2 = "jaxpr.slice"(%rows) {limit_indices = array<i64: 3, 2>, start_indices = array<i64: 2, 0>} : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %r2 = "jaxpr.squeeze"(%s2) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %p2 = "jaxpr.dot_general"(%w, %r2) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %a2 = "jaxpr.add"(%p2, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %m2 = "jaxpr.max"(%a2, %r2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %q2 = "jaxpr.reduce_sum"(%m2) {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %t2 = "jaxpr.add"(%t1, %q2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %t2 : tensor<f32>
}

// Images that are convolved with the same kernel become a batch of images.
// CHECK-LABEL: func.func public @images
// CHECK:         "jaxpr.conv_general_dilated"({{.*}} : (tensor<3x3x1xf32>, tensor<2x1x1xf32>) -> tensor<3x2x1xf32>
// CHECK-NOT:     "jaxpr.conv_general_dilated"

// IMAGES: result: f32[] = 148066.5
func.func public @images(%images: tensor<3x3x1xf32>, %k: tensor<2x1x1xf32>, %start: tensor<f32>) -> tensor<f32> {
  %x0 = "jaxpr.slice"(%images) {limit_indices = array<i64: 1, 3, 1>, start_indices = array<i64: 0, 0, 0>} : (tensor<3x3x1xf32>) -> tensor<1x3x1xf32>
  %y0 = "jaxpr.conv_general_dilated"(%x0, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 2, 1>, out_spec = array<i64: 0, 2, 1>, rhs_spec = array<i64: 2, 1, 0>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x3x1xf32>, tensor<2x1x1xf32>) -> tensor<1x2x1xf32>
  %z0 = "jaxpr.mul"(%y0, %y0) : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %s0 = "jaxpr.reduce_sum"(%z0) {axes = array<i64: 0, 1, 2>} : (tensor<1x2x1xf32>) -> tensor<f32>
  %t0 = "jaxpr.add"(%start, %s0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %x1 = "jaxpr.slice"(%images) {limit_indices = array<i64: 2, 3, 1>, start_indices = array<i64: 1, 0, 0>} : (tensor<3x3x1xf32>) -> tensor<1x3x1xf32>
  %y1 = "jaxpr.conv_general_dilated"(%x1, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 2, 1>, out_spec = array<i64: 0, 2, 1>, rhs_spec = array<i64: 2, 1, 0>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x3x1xf32>, tensor<2x1x1xf32>) -> tensor<1x2x1xf32>
  %z1 = "jaxpr.mul"(%y1, %y1) : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %s1 = "jaxpr.reduce_sum"(%z1) {axes = array<i64: 0, 1, 2>} : (tensor<1x2x1xf32>) -> tensor<f32>
  %t1 = "jaxpr.add"(%t0, %s1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %x2 = "jaxpr.slice"(%images) {limit_indices = array<i64: 3, 3, 1>, start_indices = array<i64: 2, 0, 0>} : (tensor<3x3x1xf32>) -> tensor<1x3x1xf32>
  %y2 = "jaxpr.conv_general_dilated"(%x2, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 2, 1>, out_spec = array<i64: 0, 2, 1>, rhs_spec = array<i64: 2, 1, 0>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x3x1xf32>, tensor<2x1x1xf32>) -> tensor<1x2x1xf32>
  %z2 = "jaxpr.mul"(%y2, %y2) : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %s2 = "jaxpr.reduce_sum"(%z2) {axes = array<i64: 0, 1, 2>} : (tensor<1x2x1xf32>) -> tensor<f32>
  %t2 = "jaxpr.add"(%t1, %s2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %t2 : tensor<f32>
}
