// Sums of linear functions: an op that is the same for all terms is applied once, to the sum.

// RUN: jaxmlir-opt --jaxpr-factor-linear-sums %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-factor-linear-sums %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s > %t.before
// RUN: jaxmlir-run %t > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after
// RUN: jaxmlir-opt --jaxpr-factor-linear-sums --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The trace of c * (W W^T), for many c. Its transpose in t, applied to the basis vectors, is W
// itself. c does not depend on the basis vectors, so c is multiplied by the sum of the squares of W.
// REMARK: factor-linear-sums.mlir:{{[0-9]+}}:8: remark: [jaxpr-factor-linear-sums] computed the sum of a linear function by its transpose, which removes 5 ops (matrix products: 1): 0.184 us instead of 6.47 us
// CHECK-LABEL: func.func private @trace
// CHECK-SAME:    (%[[W:.*]]: tensor<16x64xf32>, %[[C:.*]]: tensor<8x64xf32>)
// CHECK-NEXT:    %[[WW:.*]] = "jaxpr.mul"(%[[W]], %[[W]])
// CHECK-NEXT:    %[[S:.*]] = "jaxpr.reduce_sum"(%[[WW]]) {axes = array<i64: 0>}
// CHECK-NEXT:    %[[SS:.*]] = "jaxpr.broadcast_in_dim"(%[[S]])
// CHECK-NEXT:    %[[P:.*]] = "jaxpr.mul"(%[[C]], %[[SS]])
// CHECK-NEXT:    %[[R:.*]] = "jaxpr.reduce_sum"(%[[P]]) {axes = array<i64: 1>}
// CHECK-NEXT:    return %[[R]]
func.func private @trace(%w: tensor<16x64xf32>, %c: tensor<8x64xf32>) -> tensor<8xf32> {
  %0 = "jaxpr.broadcast_in_dim"(%w) {broadcast_dimensions = array<i64: 1, 2>, shape = array<i64: 1, 16, 64>} : (tensor<16x64xf32>) -> tensor<1x16x64xf32>
  %1 = "jaxpr.broadcast_in_dim"(%c) {broadcast_dimensions = array<i64: 0, 2>, shape = array<i64: 8, 1, 64>} : (tensor<8x64xf32>) -> tensor<8x1x64xf32>
  %t = "jaxpr.mul"(%0, %1) : (tensor<1x16x64xf32>, tensor<8x1x64xf32>) -> tensor<8x16x64xf32>
  %h = "jaxpr.dot_general"(%t, %w) {dimension_numbers = [[array<i64: 2>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<8x16x64xf32>, tensor<16x64xf32>) -> tensor<8x16x16xf32>
  %i = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 16, 16>} : () -> tensor<16x16xi32>
  %j = "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 16, 16>} : () -> tensor<16x16xi32>
  %eye = "jaxpr.eq"(%i, %j) : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
  %mask = "jaxpr.broadcast_in_dim"(%eye) {broadcast_dimensions = array<i64: 1, 2>, shape = array<i64: 8, 16, 16>} : (tensor<16x16xi1>) -> tensor<8x16x16xi1>
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %zeros = "jaxpr.broadcast_in_dim"(%zero) {broadcast_dimensions = [], shape = array<i64: 8, 16, 16>} : (tensor<f32>) -> tensor<8x16x16xf32>
  %2 = "jaxpr.select_n"(%mask, %zeros, %h) : (tensor<8x16x16xi1>, tensor<8x16x16xf32>, tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 1, 2>} : (tensor<8x16x16xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

func.func private @quadratic(%w: tensor<64x32xf32>, %d: tensor<32xf32>, %v: tensor<8x64xf32>) -> tensor<8xf32> {
// v^T (W (d * (W^T v))): the program already computes W^T v, the transpose of the product, applied to v.
// CHECK-LABEL: func.func private @quadratic
// CHECK-SAME:    (%[[W:.*]]: tensor<64x32xf32>, %[[D:.*]]: tensor<32xf32>, %[[V:.*]]: tensor<8x64xf32>)
// CHECK-NEXT:    %[[Z:.*]] = "jaxpr.dot_general"(%[[V]], %[[W]])
// CHECK-NEXT:    %[[DD:.*]] = "jaxpr.broadcast_in_dim"(%[[D]])
// CHECK-NEXT:    %[[DZ:.*]] = "jaxpr.mul"(%[[Z]], %[[DD]])
// CHECK-NEXT:    %[[ZDZ:.*]] = "jaxpr.mul"(%[[Z]], %[[DZ]])
// CHECK-NEXT:    %[[R:.*]] = "jaxpr.reduce_sum"(%[[ZDZ]]) {axes = array<i64: 1>}
// CHECK-NEXT:    return %[[R]]
  %z = "jaxpr.dot_general"(%v, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %0 = "jaxpr.broadcast_in_dim"(%d) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 8, 32>} : (tensor<32xf32>) -> tensor<8x32xf32>
  %1 = "jaxpr.mul"(%z, %0) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %2 = "jaxpr.dot_general"(%1, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<8x32xf32>, tensor<64x32xf32>) -> tensor<8x64xf32>
  %3 = "jaxpr.dot_general"(%v, %2) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [array<i64: 0>, array<i64: 0>]], preferred_element_type = f32} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

func.func private @sum(%x: tensor<8x16x64xf32>, %c: tensor<8x64xf32>, %w: tensor<64x8xf32>) -> tensor<8x8xf32> {
// sum over i of (x_i * c) W = ((sum over i of x_i) * c) W
// CHECK-LABEL: func.func private @sum
// CHECK-SAME:    (%[[X:.*]]: tensor<8x16x64xf32>, %[[C:.*]]: tensor<8x64xf32>, %[[W:.*]]: tensor<64x8xf32>)
// CHECK-NEXT:    %[[S:.*]] = "jaxpr.reduce_sum"(%[[X]]) {axes = array<i64: 1>}
// CHECK-NEXT:    %[[P:.*]] = "jaxpr.mul"(%[[C]], %[[S]])
// CHECK-NEXT:    %[[R:.*]] = "jaxpr.dot_general"(%[[P]], %[[W]])
// CHECK-NEXT:    return %[[R]]
  %0 = "jaxpr.broadcast_in_dim"(%c) {broadcast_dimensions = array<i64: 0, 2>, shape = array<i64: 8, 1, 64>} : (tensor<8x64xf32>) -> tensor<8x1x64xf32>
  %1 = "jaxpr.mul"(%x, %0) : (tensor<8x16x64xf32>, tensor<8x1x64xf32>) -> tensor<8x16x64xf32>
  %2 = "jaxpr.dot_general"(%1, %w) {dimension_numbers = [[array<i64: 2>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x16x64xf32>, tensor<64x8xf32>) -> tensor<8x16x8xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 1>} : (tensor<8x16x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

func.func private @returned(%w: tensor<64x32xf32>, %d: tensor<8x32xf32>, %v: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>) {
// W (d * (W^T v)) is also a result, so it is computed anyway.
// CHECK-LABEL: func.func private @returned
// CHECK-COUNT-3: "jaxpr.dot_general"
// CHECK-NEXT:    return
  %z = "jaxpr.dot_general"(%v, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %0 = "jaxpr.mul"(%z, %d) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %1 = "jaxpr.dot_general"(%0, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<8x32xf32>, tensor<64x32xf32>) -> tensor<8x64xf32>
  %2 = "jaxpr.dot_general"(%v, %1) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [array<i64: 0>, array<i64: 0>]], preferred_element_type = f32} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8xf32>
  return %1, %2 : tensor<8x64xf32>, tensor<8xf32>
}

// All numbers below are small integers, so sums are exact in any order.
// EXEC:      result[0]: f32[1] = [2048.0]
// EXEC-NEXT: result[1]: f32[1] = [262144.0]
// EXEC-NEXT: result[2]: f32[1,1] = {{\[\[}}2048.0{{\]\]}}
func.func public @main() -> (tensor<1xf32>, tensor<1xf32>, tensor<1x1xf32>) {
  %w = "jaxpr.constant"() {value = dense<1.0> : tensor<16x64xf32>} : () -> tensor<16x64xf32>
  %c = "jaxpr.constant"() {value = dense<2.0> : tensor<8x64xf32>} : () -> tensor<8x64xf32>
  %0 = "jaxpr.jit"(%w, %c) {jaxpr = @trace, name = "trace"} : (tensor<16x64xf32>, tensor<8x64xf32>) -> tensor<8xf32>
  %1 = "jaxpr.slice"(%0) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<8xf32>) -> tensor<1xf32>
  %w2 = "jaxpr.constant"() {value = dense<1.0> : tensor<64x32xf32>} : () -> tensor<64x32xf32>
  %d = "jaxpr.constant"() {value = dense<2.0> : tensor<32xf32>} : () -> tensor<32xf32>
  %v = "jaxpr.constant"() {value = dense<1.0> : tensor<8x64xf32>} : () -> tensor<8x64xf32>
  %2 = "jaxpr.jit"(%w2, %d, %v) {jaxpr = @quadratic, name = "quadratic"} : (tensor<64x32xf32>, tensor<32xf32>, tensor<8x64xf32>) -> tensor<8xf32>
  %3 = "jaxpr.slice"(%2) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<8xf32>) -> tensor<1xf32>
  %x = "jaxpr.constant"() {value = dense<1.0> : tensor<8x16x64xf32>} : () -> tensor<8x16x64xf32>
  %w3 = "jaxpr.constant"() {value = dense<1.0> : tensor<64x8xf32>} : () -> tensor<64x8xf32>
  %4 = "jaxpr.jit"(%x, %c, %w3) {jaxpr = @sum, name = "sum"} : (tensor<8x16x64xf32>, tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  %5 = "jaxpr.slice"(%4) {limit_indices = array<i64: 1, 1>, start_indices = array<i64: 0, 0>} : (tensor<8x8xf32>) -> tensor<1x1xf32>
  return %1, %3, %5 : tensor<1xf32>, tensor<1xf32>, tensor<1x1xf32>
}
