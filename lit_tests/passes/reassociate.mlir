// Products of several matrices are multiplied in the order that costs least.

// RUN: jaxmlir-opt --jaxpr-reassociate %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-reassociate %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s > %t.before
// RUN: jaxmlir-run %t > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after
// RUN: jaxmlir-opt --jaxpr-reassociate --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// (A B) v becomes two products of a matrix and a vector. The scale is a number, and is applied to the
// product with the fewest elements, the last of several: a factor times it may overflow.
// REMARK: reassociate.mlir:{{[0-9]+}}:8: remark: [jaxpr-reassociate] product ab,bc,c->a as (0 (1 2)): 16.4 kFLOP and 33.8 kB instead of 532 kFLOP and 66 kB
// CHECK-LABEL: func.func private @chain
// CHECK-SAME:    (%[[A:.*]]: tensor<64x64xf32>, %[[B:.*]]: tensor<64x64xf32>, %[[V:.*]]: tensor<64xf32>)
// CHECK-NEXT:    %[[BV:.*]] = "jaxpr.dot_general"(%[[B]], %[[V]])
// CHECK-NEXT:    %[[ABV:.*]] = "jaxpr.dot_general"(%[[A]], %[[BV]])
// CHECK:         %[[S:.*]] = "jaxpr.broadcast_in_dim"(%{{.*}}) {broadcast_dimensions = [], shape = array<i64: 64>}
// CHECK-NEXT:    %[[SABV:.*]] = "jaxpr.mul"(%[[S]], %[[ABV]])
// CHECK-NEXT:    return %[[SABV]] : tensor<64xf32>
func.func private @chain(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %v: tensor<64xf32>) -> tensor<64xf32> {
  %0 = "jaxpr.dot_general"(%a, %b) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = "jaxpr.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %s) : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %2 = "jaxpr.dot_general"(%1, %v) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// trace(A B) = sum(A * B^T): the mask of the diagonal makes the row index and the column index equal.
// CHECK-LABEL: func.func private @trace
// CHECK-SAME:    (%[[A:.*]]: tensor<64x64xf32>, %[[B:.*]]: tensor<64x64xf32>)
// CHECK-NEXT:    %[[T:.*]] = "jaxpr.transpose"(%[[B]])
// CHECK-NEXT:    %[[M:.*]] = "jaxpr.mul"(%[[A]], %[[T]])
// CHECK-NEXT:    %[[SUM:.*]] = "jaxpr.reduce_sum"(%[[M]]) {axes = array<i64: 0, 1>}
// CHECK-NEXT:    return %[[SUM]] : tensor<f32>
func.func private @trace(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<f32> {
  %0 = "jaxpr.dot_general"(%a, %b) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %i = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 64, 64>} : () -> tensor<64x64xi32>
  %j = "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 64, 64>} : () -> tensor<64x64xi32>
  %eye = "jaxpr.eq"(%i, %j) : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
  %z = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %zeros = "jaxpr.broadcast_in_dim"(%z) {broadcast_dimensions = [], shape = array<i64: 64, 64>} : (tensor<f32>) -> tensor<64x64xf32>
  %1 = "jaxpr.select_n"(%eye, %zeros, %0) : (tensor<64x64xi1>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 0, 1>} : (tensor<64x64xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// diag(A B)[i] is the sum of A[i, j] B[j, i]: the elements whose row and column are the same number.
// CHECK-LABEL: func.func private @diagonal
// CHECK-SAME:    (%[[A:.*]]: tensor<64x64xf32>, %[[B:.*]]: tensor<64x64xf32>)
// CHECK-NEXT:    %[[T:.*]] = "jaxpr.transpose"(%[[B]])
// CHECK-NEXT:    %[[M:.*]] = "jaxpr.mul"(%[[A]], %[[T]])
// CHECK-NEXT:    %[[SUM:.*]] = "jaxpr.reduce_sum"(%[[M]]) {axes = array<i64: 1>}
// CHECK-NEXT:    return %[[SUM]] : tensor<64xf32>
func.func private @diagonal(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64xf32> {
  %0 = "jaxpr.dot_general"(%a, %b) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %i = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 64>} : () -> tensor<64xi32>
  %column = "jaxpr.broadcast_in_dim"(%i) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 64, 1>} : (tensor<64xi32>) -> tensor<64x1xi32>
  %pairs = "jaxpr.concatenate"(%column, %column) {dimension = 1 : i64} : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x2xi32>
  %1 = "jaxpr.gather"(%0, %pairs) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0, 1>, offset_dims = [], start_index_map = array<i64: 0, 1>}}, mode = {GatherScatterMode = "PROMISE_IN_BOUNDS"}, slice_sizes = array<i64: 1, 1>} : (tensor<64x64xf32>, tensor<64x2xi32>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// Two products with vectors use A B as a factor, and neither needs A B itself.
// CHECK-LABEL: func.func private @shared
// CHECK-SAME:    (%[[A:.*]]: tensor<64x64xf32>, %[[B:.*]]: tensor<64x64xf32>, %[[V:.*]]: tensor<64xf32>)
// CHECK-NEXT:    %[[BV:.*]] = "jaxpr.dot_general"(%[[B]], %[[V]])
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.dot_general"(%[[A]], %[[BV]])
// CHECK-NEXT:    %[[AV:.*]] = "jaxpr.dot_general"(%[[V]], %[[A]])
// CHECK-NEXT:    %[[Z:.*]] = "jaxpr.dot_general"(%[[B]], %[[AV]])
// CHECK-NEXT:    return %[[Y]], %[[Z]]
func.func private @shared(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %v: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %0 = "jaxpr.dot_general"(%a, %b) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "jaxpr.dot_general"(%0, %v) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %2 = "jaxpr.dot_general"(%v, %0) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64xf32>, tensor<64x64xf32>) -> tensor<64xf32>
  return %1, %2 : tensor<64xf32>, tensor<64xf32>
}

// A B is also a result, so it is computed anyway, and stays.
// CHECK-LABEL: func.func private @returned
// CHECK-NEXT:    %[[AB:.*]] = "jaxpr.dot_general"
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.dot_general"(%[[AB]]
// CHECK-NEXT:    return %[[AB]], %[[Y]]
func.func private @returned(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %v: tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %0 = "jaxpr.dot_general"(%a, %b) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "jaxpr.dot_general"(%0, %v) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64xf32>
}

// Half-precision numbers overflow soon, so the products are computed as written.
// CHECK-LABEL: func.func private @halves
// CHECK-NEXT:    %[[AB:.*]] = "jaxpr.dot_general"
// CHECK-NEXT:    "jaxpr.dot_general"(%[[AB]]
func.func private @halves(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %v: tensor<64xf16>) -> tensor<64xf16> {
  %0 = "jaxpr.dot_general"(%a, %b) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f16} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  %1 = "jaxpr.dot_general"(%0, %v) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f16} : (tensor<64x64xf16>, tensor<64xf16>) -> tensor<64xf16>
  return %1 : tensor<64xf16>
}

// A loop multiplies by the same two matrices a hundred times: their product is computed once, although
// it takes more operations than one iteration. jaxpr-licm then moves the product before the loop.
// CHECK-LABEL: func.func private @power
// CHECK-NEXT:    "jaxpr.scan"
// CHECK-LABEL: func.func private @step
// CHECK-SAME:    (%[[A:.*]]: tensor<8x64xf32>, %[[B:.*]]: tensor<64x8xf32>, %[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT:    %[[AB:.*]] = "jaxpr.dot_general"(%[[A]], %[[B]]) {{.*}} -> tensor<8x8xf32>
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.dot_general"(%[[X]], %[[AB]])
// CHECK-NEXT:    return %[[Y]]
func.func private @power(%a: tensor<8x64xf32>, %b: tensor<64x8xf32>, %x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "jaxpr.scan"(%a, %b, %x) {jaxpr = @step, length = 100 : i64, num_carry = 1 : i64, num_consts = 2 : i64} : (tensor<8x64xf32>, tensor<64x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @step(%a: tensor<8x64xf32>, %b: tensor<64x8xf32>, %x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "jaxpr.dot_general"(%b, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x8xf32>, tensor<8xf32>) -> tensor<64xf32>
  %1 = "jaxpr.dot_general"(%a, %0) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// A factor that does not change along the summed axis is moved out of the sum.
// CHECK-LABEL: func.func private @scaled
// CHECK-SAME:    (%[[X:.*]]: tensor<2048x8xf32>, %[[S:.*]]: tensor<1x8xf32>)
// CHECK:         %[[SUM:.*]] = "jaxpr.reduce_sum"(%[[X]]) {axes = array<i64: 0>}
// CHECK:         %[[OUT:.*]] = "jaxpr.mul"
// CHECK-NEXT:    return %[[OUT]] : tensor<8xf32>
func.func private @scaled(%x: tensor<2048x8xf32>, %s: tensor<1x8xf32>) -> tensor<8xf32> {
  %0 = "jaxpr.mul"(%x, %s) : (tensor<2048x8xf32>, tensor<1x8xf32>) -> tensor<2048x8xf32>
  %1 = "jaxpr.reduce_sum"(%0) {axes = array<i64: 0>} : (tensor<2048x8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// All numbers below are small integers, or halves of them, so sums are exact in any order.
// EXEC:      result[0]: f32[] = 4096.0
// EXEC-NEXT: result[1]: f32[] = 8192.0
// EXEC-NEXT: result[2]: f32[] = 6.7108864e+07
// EXEC-NEXT: result[3]: f32[64] = [128.0, 128.0,
// EXEC:      result[4]: f32[8] = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
// EXEC-NEXT: result[5]: f32[8] = [4096.0, 4096.0, 4096.0, 4096.0, 4096.0, 4096.0, 4096.0, 4096.0]
func.func public @main() -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<64xf32>, tensor<8xf32>, tensor<8xf32>) {
  %one = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %two = "jaxpr.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %a = "jaxpr.broadcast_in_dim"(%one) {broadcast_dimensions = [], shape = array<i64: 64, 64>} : (tensor<f32>) -> tensor<64x64xf32>
  %b = "jaxpr.broadcast_in_dim"(%two) {broadcast_dimensions = [], shape = array<i64: 64, 64>} : (tensor<f32>) -> tensor<64x64xf32>
  %v = "jaxpr.broadcast_in_dim"(%one) {broadcast_dimensions = [], shape = array<i64: 64>} : (tensor<f32>) -> tensor<64xf32>
  %0 = "jaxpr.jit"(%a, %b, %v) {jaxpr = @chain, name = "chain"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %1 = "jaxpr.jit"(%a, %b) {jaxpr = @trace, name = "trace"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<f32>
  %2, %3 = "jaxpr.jit"(%a, %b, %v) {jaxpr = @shared, name = "shared"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  %first = "jaxpr.slice"(%0) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<64xf32>) -> tensor<1xf32>
  %4 = "jaxpr.reshape"(%first) {new_sizes = []} : (tensor<1xf32>) -> tensor<f32>
  %5 = "jaxpr.mul"(%2, %3) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %last = "jaxpr.slice"(%5) {limit_indices = array<i64: 64>, start_indices = array<i64: 63>} : (tensor<64xf32>) -> tensor<1xf32>
  %6 = "jaxpr.reshape"(%last) {new_sizes = []} : (tensor<1xf32>) -> tensor<f32>
  %7 = "jaxpr.jit"(%a, %b) {jaxpr = @diagonal, name = "diagonal"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64xf32>
  %c = "jaxpr.broadcast_in_dim"(%one) {broadcast_dimensions = [], shape = array<i64: 8, 64>} : (tensor<f32>) -> tensor<8x64xf32>
  %small = "jaxpr.constant"() {value = dense<0.001953125> : tensor<f32>} : () -> tensor<f32>
  %d = "jaxpr.broadcast_in_dim"(%small) {broadcast_dimensions = [], shape = array<i64: 64, 8>} : (tensor<f32>) -> tensor<64x8xf32>
  %x = "jaxpr.broadcast_in_dim"(%one) {broadcast_dimensions = [], shape = array<i64: 8>} : (tensor<f32>) -> tensor<8xf32>
  %8 = "jaxpr.jit"(%c, %d, %x) {jaxpr = @power, name = "power"} : (tensor<8x64xf32>, tensor<64x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s = "jaxpr.broadcast_in_dim"(%two) {broadcast_dimensions = [], shape = array<i64: 1, 8>} : (tensor<f32>) -> tensor<1x8xf32>
  %ones = "jaxpr.broadcast_in_dim"(%one) {broadcast_dimensions = [], shape = array<i64: 2048, 8>} : (tensor<f32>) -> tensor<2048x8xf32>
  %9 = "jaxpr.jit"(%ones, %s) {jaxpr = @scaled, name = "scaled"} : (tensor<2048x8xf32>, tensor<1x8xf32>) -> tensor<8xf32>
  return %4, %1, %6, %7, %8, %9 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<64xf32>, tensor<8xf32>, tensor<8xf32>
}
