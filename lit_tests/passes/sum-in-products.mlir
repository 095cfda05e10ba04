// On a TPU, the sum of a softmax becomes one more column of the product that reads the softmax.

// RUN: jaxmlir-opt --target=tpu --jaxpr-sum-in-products %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-sum-in-products %s | FileCheck %s --check-prefix=LEFT
// RUN: jaxmlir-run %s --entry main --args 0.5 | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --entry main --args 0.5 | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %s --entry rows --args 0.5 | FileCheck %s --check-prefix=ROWS
// RUN: jaxmlir-run %t --entry rows --args 0.5 | FileCheck %s --check-prefix=ROWS
// RUN: jaxmlir-opt --target=tpu --jaxpr-sum-in-products --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: sum-in-products.mlir:[[# @LINE + 42]]:8: remark: [jaxpr-sum-in-products] computed by the product that this sum normalizes, as one more column
// REMARK:     remark: [jaxpr-sum-in-products] replaced by a matrix product with ones, because other products read the rows
// REMARK-NOT: remark

// The product moves up to the place of the sum, and so do the ops that compute its other operand.
// CHECK-LABEL: func.func public @main
// CHECK:         %[[E:.*]] = "jaxpr.exp"
// CHECK-NEXT:    %[[V:.*]] = "jaxpr.broadcast_in_dim"
// CHECK-NEXT:    %[[ONE:.*]] = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK-NEXT:    %[[WIDE:.*]] = "jaxpr.pad"(%[[V]], %[[ONE]]) {padding_config = [array<i64: 0, 0, 0>, array<i64: 0, 1, 0>]}
// CHECK-NEXT:    %[[R:.*]] = "jaxpr.dot_general"(%[[E]], %[[WIDE]])
// CHECK-NEXT:    %[[VALUES:.*]] = "jaxpr.slice"(%[[R]]) {limit_indices = array<i64: 1024, 2>
// CHECK-NEXT:    %[[SUMS:.*]] = "jaxpr.slice"(%[[R]]) {limit_indices = array<i64: 1024, 3>, start_indices = array<i64: 0, 2>}
// CHECK:         "jaxpr.div"(%[[VALUES]], %{{.*}})
// LEFT-LABEL:  func.func public @main
// LEFT-NOT:      "jaxpr.pad"

// Exponentials of numbers minus a maximum of others may be as large as the largest float, so the pass leaves them alone.
// CHECK-LABEL: func.func public @unbounded
// CHECK-NOT:     "jaxpr.pad"

// Rows that a product reads are summed by another product, with eight rows of ones, in 32 bits.
// CHECK-LABEL: func.func public @rows
// CHECK:         %[[ONES:.*]] = "jaxpr.broadcast_in_dim"({{.*}}) {broadcast_dimensions = [], shape = array<i64: 8, 2048>}
// CHECK:         %[[SUMS:.*]] = "jaxpr.dot_general"(%[[ONES]], %{{.*}}) {{{.*}}precision = {{.*}}DEFAULT{{.*}}HIGHEST
// CHECK-NOT:     "jaxpr.reduce_sum"
// ROWS: result[0]: f32[64] = [1024.0, 1024.0,
// ROWS: result[1]: f32[64,2]

// Rows that contain exponentials, and are not factors themselves, would be computed for each product: the sum stays.
// CHECK-LABEL: func.func public @computed_again
// CHECK:         "jaxpr.reduce_sum"

// EXEC: result[0]: f32[] = 1024.0
// EXEC: result[1]: f32[] = 1024.0
func.func public @main(%s: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %i = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 1024, 1024>} : () -> tensor<1024x1024xf32>
  %x = "jaxpr.mul"(%i, %s) : (tensor<1024x1024xf32>, tensor<f32>) -> tensor<1024x1024xf32>
  %0 = "jaxpr.reduce_max"(%x) {axes = array<i64: 1>} : (tensor<1024x1024xf32>) -> tensor<1024xf32>
  %1 = "jaxpr.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 1024, 1>} : (tensor<1024xf32>) -> tensor<1024x1xf32>
  %2 = "jaxpr.sub"(%x, %1) : (tensor<1024x1024xf32>, tensor<1024x1xf32>) -> tensor<1024x1024xf32>
  %3 = "jaxpr.exp"(%2) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %4 = "jaxpr.reduce_sum"(%3) {axes = array<i64: 1>} : (tensor<1024x1024xf32>) -> tensor<1024xf32>
  %5 = "jaxpr.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 1024, 1>} : (tensor<1024xf32>) -> tensor<1024x1xf32>
  %6 = "jaxpr.div"(%3, %5) : (tensor<1024x1024xf32>, tensor<1024x1xf32>) -> tensor<1024x1024xf32>
  %v = "jaxpr.broadcast_in_dim"(%s) {broadcast_dimensions = [], shape = array<i64: 1024, 2>} : (tensor<f32>) -> tensor<1024x2xf32>
  %7 = "jaxpr.dot_general"(%6, %v) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<1024x1024xf32>, tensor<1024x2xf32>) -> tensor<1024x2xf32>
  %8 = "jaxpr.reduce_sum"(%7) {axes = array<i64: 0, 1>} : (tensor<1024x2xf32>) -> tensor<f32>
  %9 = "jaxpr.reduce_max"(%4) {axes = array<i64: 0>} : (tensor<1024xf32>) -> tensor<f32>
  return %8, %9 : tensor<f32>, tensor<f32>
}

func.func public @unbounded(%x: tensor<1024x1024xf32>, %v: tensor<1024x2xf32>) -> tensor<1024x2xf32> {
  %m = "jaxpr.reduce_max"(%v) {axes = array<i64: 0, 1>} : (tensor<1024x2xf32>) -> tensor<f32>
  %d = "jaxpr.sub"(%x, %m) : (tensor<1024x1024xf32>, tensor<f32>) -> tensor<1024x1024xf32>
  %0 = "jaxpr.exp"(%d) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = "jaxpr.reduce_sum"(%0) {axes = array<i64: 1>} : (tensor<1024x1024xf32>) -> tensor<1024xf32>
  %2 = "jaxpr.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 1024, 1>} : (tensor<1024xf32>) -> tensor<1024x1xf32>
  %3 = "jaxpr.div"(%0, %2) : (tensor<1024x1024xf32>, tensor<1024x1xf32>) -> tensor<1024x1024xf32>
  %4 = "jaxpr.dot_general"(%3, %v) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<1024x1024xf32>, tensor<1024x2xf32>) -> tensor<1024x2xf32>
  return %4 : tensor<1024x2xf32>
}

func.func public @rows(%s: tensor<f32>) -> (tensor<64xf32>, tensor<64x2xf32>) {
  %g = "jaxpr.broadcast_in_dim"(%s) {broadcast_dimensions = [], shape = array<i64: 2048, 64>} : (tensor<f32>) -> tensor<2048x64xf32>
  %x = "jaxpr.broadcast_in_dim"(%s) {broadcast_dimensions = [], shape = array<i64: 2048, 2>} : (tensor<f32>) -> tensor<2048x2xf32>
  %0 = "jaxpr.reduce_sum"(%g) {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %1 = "jaxpr.dot_general"(%g, %x) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2048x64xf32>, tensor<2048x2xf32>) -> tensor<64x2xf32>
  return %0, %1 : tensor<64xf32>, tensor<64x2xf32>
}

func.func public @computed_again(%y: tensor<2048x64xf32>, %x: tensor<2048x2xf32>) -> (tensor<64xf32>, tensor<64x2xf32>) {
  %g = "jaxpr.exp"(%y) : (tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %0 = "jaxpr.reduce_sum"(%g) {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %1 = "jaxpr.dot_general"(%g, %x) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2048x64xf32>, tensor<2048x2xf32>) -> tensor<64x2xf32>
  return %0, %1 : tensor<64xf32>, tensor<64x2xf32>
}

// Rows that are small matrices stay a sum.
// CHECK-LABEL: func.func private @matrices
// CHECK:         "jaxpr.reduce_sum"
func.func private @matrices(%x: tensor<512x32x32xf32>, %v: tensor<512x4xf32>) -> (tensor<32x32xf32>, tensor<32x32x4xf32>) {
  %0 = "jaxpr.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<512x32x32xf32>) -> tensor<32x32xf32>
  %1 = "jaxpr.dot_general"(%x, %v) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<512x32x32xf32>, tensor<512x4xf32>) -> tensor<32x32x4xf32>
  return %0, %1 : tensor<32x32xf32>, tensor<32x32x4xf32>
}

// Sums of no elements stay.
// CHECK-LABEL: func.func private @nothing
// CHECK-NOT:     "jaxpr.pad"
func.func private @nothing(%x: tensor<512x0xf32>, %v: tensor<0x4xf32>) -> tensor<512x4xf32> {
  %0 = "jaxpr.reduce_max"(%x) {axes = array<i64: 1>} : (tensor<512x0xf32>) -> tensor<512xf32>
  %1 = "jaxpr.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 512, 1>} : (tensor<512xf32>) -> tensor<512x1xf32>
  %2 = "jaxpr.sub"(%x, %1) : (tensor<512x0xf32>, tensor<512x1xf32>) -> tensor<512x0xf32>
  %3 = "jaxpr.exp"(%2) : (tensor<512x0xf32>) -> tensor<512x0xf32>
  %4 = "jaxpr.reduce_sum"(%3) {axes = array<i64: 1>} : (tensor<512x0xf32>) -> tensor<512xf32>
  %5 = "jaxpr.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 512, 1>} : (tensor<512xf32>) -> tensor<512x1xf32>
  %6 = "jaxpr.div"(%3, %5) : (tensor<512x0xf32>, tensor<512x1xf32>) -> tensor<512x0xf32>
  %7 = "jaxpr.dot_general"(%6, %v) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<512x0xf32>, tensor<0x4xf32>) -> tensor<512x4xf32>
  return %7 : tensor<512x4xf32>
}
