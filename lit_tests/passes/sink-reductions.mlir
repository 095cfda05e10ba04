// A value that a loop only accumulates is added up after the loop, by one product or scatter.

// RUN: jaxmlir-opt --jaxpr-sink-reductions='min-bytes=0 moved=0.25' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-sink-reductions='min-bytes=0 moved=0.25' %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-sink-reductions='min-bytes=0 moved=0.25' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The outer products of h and x are added to w. The rows of x are available, and the rows of h are stacked; the product
// after the loop contracts the iterations. The sum of h reads the same stacked rows.
// REMARK-DAG: sink-reductions.mlir:{{[0-9]+}}:8: remark: [jaxpr-sink-reductions] moved out of the loop: 'jaxpr.dot_general' of 64 bytes is computed once, after the loop
// CHECK-LABEL: func.func private @weights
// CHECK-SAME:    (%[[W:.*]]: tensor<4x4xf32>, %[[B:.*]]: tensor<4xf32>, %[[H:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<3x4xf32>)
// CHECK-NEXT:    %[[LOOP:.*]]:2 = "jaxpr.scan"(%[[H]], %[[X]]) {jaxpr = @step, length = 3 : i64, num_carry = 1 : i64} : (tensor<4xf32>, tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>)
// CHECK-NEXT:    %[[P:.*]] = "jaxpr.dot_general"(%[[LOOP]]#1, %[[X]]) {dimension_numbers = {{\[\[}}array<i64: 0>, array<i64: 0>], {{\[\[}}], []]]
// CHECK-NEXT:    %[[T:.*]] = "jaxpr.transpose"(%[[P]])
// CHECK-NEXT:    %[[SUM:.*]] = "jaxpr.sub"(%[[W]], %[[T]])
// CHECK-NEXT:    %[[ROWS:.*]] = "jaxpr.reduce_sum"(%[[LOOP]]#1) {axes = array<i64: 0>}
// CHECK-NEXT:    %[[BIAS:.*]] = "jaxpr.add"(%[[B]], %[[ROWS]])
// CHECK-NEXT:    return %[[SUM]], %[[BIAS]], %[[LOOP]]#0
func.func private @weights(%w: tensor<4x4xf32>, %b: tensor<4xf32>, %h: tensor<4xf32>, %x: tensor<3x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0:3 = "jaxpr.scan"(%w, %b, %h, %x) {jaxpr = @step, length = 3 : i64, num_carry = 3 : i64} : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @step(%w: tensor<4x4xf32>, %b: tensor<4xf32>, %h: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = "jaxpr.add"(%h, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "jaxpr.dot_general"(%0, %x) {dimension_numbers = [[[], []], [[], []]], preferred_element_type = f32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %2 = "jaxpr.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "jaxpr.sub"(%w, %2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "jaxpr.add"(%b, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3, %4, %0 : tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Each iteration adds to one element of a table: one scatter adds all of them, also repeated additions to one element.
// CHECK-LABEL: func.func private @table
// CHECK-SAME:    (%[[T:.*]]: tensor<64xf32>, %[[I:.*]]: tensor<3xi32>, %[[V:.*]]: tensor<3x1xf32>)
// CHECK-NOT:     "jaxpr.scan"
// CHECK:         %[[ALL:.*]] = "jaxpr.scatter_add"(%{{.*}}, %{{.*}}, %[[V]]) {{.*}}mode = {GatherScatterMode = "CLIP"}
// CHECK-NEXT:    %[[SUM:.*]] = "jaxpr.add"(%[[T]], %[[ALL]])
// CHECK-NEXT:    return %[[SUM]]
func.func private @table(%t: tensor<64xf32>, %i: tensor<3xi32>, %v: tensor<3x1xf32>) -> tensor<64xf32> {
  %0 = "jaxpr.scan"(%t, %i, %v) {jaxpr = @enter, length = 3 : i64, num_carry = 1 : i64} : (tensor<64xf32>, tensor<3xi32>, tensor<3x1xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
func.func private @enter(%t: tensor<64xf32>, %i: tensor<i32>, %v: tensor<1xf32>) -> tensor<64xf32> {
  %0 = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.broadcast_in_dim"(%0) {broadcast_dimensions = [], shape = array<i64: 64>} : (tensor<f32>) -> tensor<64xf32>
  %2 = "jaxpr.dynamic_update_slice"(%1, %v, %i) : (tensor<64xf32>, tensor<1xf32>, tensor<i32>) -> tensor<64xf32>
  %3 = "jaxpr.add_any"(%t, %2) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %3 : tensor<64xf32>
}

// A sum that the loop reads stays in the loop.
// CHECK-LABEL: func.func private @read
// CHECK-NEXT:    "jaxpr.scan"(%arg0, %arg1) {jaxpr = @reading, length = 3 : i64, num_carry = 1 : i64}
func.func private @read(%w: tensor<4x4xf32>, %x: tensor<3x4xf32>) -> tensor<4x4xf32> {
  %0 = "jaxpr.scan"(%w, %x) {jaxpr = @reading, length = 3 : i64, num_carry = 1 : i64} : (tensor<4x4xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func private @reading(%w: tensor<4x4xf32>, %x: tensor<4xf32>) -> tensor<4x4xf32> {
  %0 = "jaxpr.dot_general"(%w, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "jaxpr.dot_general"(%0, %x) {dimension_numbers = [[[], []], [[], []]], preferred_element_type = f32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %2 = "jaxpr.add"(%w, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// EXEC: result[0]: f32[4] = [-13.0, -6.0, -5.0, -10.0]
// EXEC: result[1]: f32[4] = [6.0, 3.0, 4.0, 7.0]
// EXEC: result[2]: f32[4] = [0.0, 0.0, 0.0, 2.0]
// EXEC: result[3]: f32[] = 7.0
// EXEC: result[4]: f32[4,4] = {{\[\[}}-541.0, -192.0, -50.0, -85.0],
func.func public @main() -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4x4xf32>) {
  %z = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %w = "jaxpr.broadcast_in_dim"(%z) {broadcast_dimensions = [], shape = array<i64: 4, 4>} : (tensor<f32>) -> tensor<4x4xf32>
  %b = "jaxpr.broadcast_in_dim"(%z) {broadcast_dimensions = [], shape = array<i64: 4>} : (tensor<f32>) -> tensor<4xf32>
  %t = "jaxpr.broadcast_in_dim"(%z) {broadcast_dimensions = [], shape = array<i64: 64>} : (tensor<f32>) -> tensor<64xf32>
  %x = "jaxpr.constant"() {value = dense<[[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, -1.0, 2.0], [3.0, 1.0, 0.0, 0.0]]> : tensor<3x4xf32>} : () -> tensor<3x4xf32>
  %i = "jaxpr.constant"() {value = dense<[1, 70, 1]> : tensor<3xi32>} : () -> tensor<3xi32>
  %v = "jaxpr.constant"() {value = dense<[[1.0], [2.0], [4.0]]> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %0:3 = "jaxpr.jit"(%w, %b, %b, %x) {jaxpr = @weights, name = "weights"} : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %1 = "jaxpr.jit"(%t, %i, %v) {jaxpr = @table, name = "table"} : (tensor<64xf32>, tensor<3xi32>, tensor<3x1xf32>) -> tensor<64xf32>
  %2 = "jaxpr.jit"(%0#0, %x) {jaxpr = @read, name = "read"} : (tensor<4x4xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  %3 = "jaxpr.slice"(%0#0) {limit_indices = array<i64: 1, 4>, start_indices = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %4 = "jaxpr.squeeze"(%3) {dimensions = array<i64: 0>} : (tensor<1x4xf32>) -> tensor<4xf32>
  %5 = "jaxpr.slice"(%1) {limit_indices = array<i64: 64>, start_indices = array<i64: 60>} : (tensor<64xf32>) -> tensor<4xf32>
  %6 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  return %4, %0#1, %5, %6, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4x4xf32>
}
