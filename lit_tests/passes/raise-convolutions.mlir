// A sum of products with shifted slices of an array is a convolution.

// RUN: jaxmlir-opt --jaxpr-raise-convolutions %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s --args '2.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '2.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-raise-convolutions --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: raise-convolutions.mlir:{{[0-9]+}}:{{[0-9]+}}: remark: [jaxpr-raise-convolutions] replaced 4 products with slices of an array by a convolution
// REMARK-NOT: remark

// Row h of the array is h, and all numbers of the kernel are 2, so the results are 16 (2 h + 1).
// EXEC: result: f32[4] = [16.0, 48.0, 80.0, 112.0]

// CHECK-LABEL: func.func public @main
func.func public @main(%b: tensor<f32>) -> tensor<4xf32> {
  // CHECK:       %[[X:.*]] = "jaxpr.iota"
  // CHECK:       %[[K:.*]] = "jaxpr.broadcast_in_dim"
  %x = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 5, 5, 4>} : () -> tensor<5x5x4xf32>
  %k = "jaxpr.broadcast_in_dim"(%b) {broadcast_dimensions = [], shape = array<i64: 2, 2, 4, 8>} : (tensor<f32>) -> tensor<2x2x4x8xf32>

  // CHECK-NOT:   "jaxpr.dot_general"
  // CHECK:       "jaxpr.reshape"(%[[K]])
  // CHECK:       %[[KERNEL:.*]] = "jaxpr.reshape"(%{{.*}}) {new_sizes = array<i64: 2, 2, 4, 8>} : (tensor<4x4x8xf32>)
  // CHECK:       %[[BATCH:.*]] = "jaxpr.broadcast_in_dim"({{.*}}) {broadcast_dimensions = array<i64: 1, 2, 3>, shape = array<i64: 1, 5, 5, 4>}
  // CHECK:       %[[Y:.*]] = "jaxpr.conv_general_dilated"(%[[BATCH]], %[[KERNEL]]) {{.*}} -> tensor<1x4x4x8xf32>
  // CHECK:       %[[SUM:.*]] = "jaxpr.squeeze"(%[[Y]])
  // CHECK-NOT:   "jaxpr.add"
  // CHECK:       "jaxpr.slice"(%[[SUM]])
  %x00 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4, 4, 4>, start_indices = array<i64: 0, 0, 0>} : (tensor<5x5x4xf32>) -> tensor<4x4x4xf32>
  %x01 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4, 5, 4>, start_indices = array<i64: 0, 1, 0>} : (tensor<5x5x4xf32>) -> tensor<4x4x4xf32>
  %x10 = "jaxpr.slice"(%x) {limit_indices = array<i64: 5, 4, 4>, start_indices = array<i64: 1, 0, 0>} : (tensor<5x5x4xf32>) -> tensor<4x4x4xf32>
  %x11 = "jaxpr.slice"(%x) {limit_indices = array<i64: 5, 5, 4>, start_indices = array<i64: 1, 1, 0>} : (tensor<5x5x4xf32>) -> tensor<4x4x4xf32>
  %k00 = "jaxpr.slice"(%k) {limit_indices = array<i64: 1, 1, 4, 8>, start_indices = array<i64: 0, 0, 0, 0>} : (tensor<2x2x4x8xf32>) -> tensor<1x1x4x8xf32>
  %k01 = "jaxpr.slice"(%k) {limit_indices = array<i64: 1, 2, 4, 8>, start_indices = array<i64: 0, 1, 0, 0>} : (tensor<2x2x4x8xf32>) -> tensor<1x1x4x8xf32>
  %k10 = "jaxpr.slice"(%k) {limit_indices = array<i64: 2, 1, 4, 8>, start_indices = array<i64: 1, 0, 0, 0>} : (tensor<2x2x4x8xf32>) -> tensor<1x1x4x8xf32>
  %k11 = "jaxpr.slice"(%k) {limit_indices = array<i64: 2, 2, 4, 8>, start_indices = array<i64: 1, 1, 0, 0>} : (tensor<2x2x4x8xf32>) -> tensor<1x1x4x8xf32>
  %m00 = "jaxpr.squeeze"(%k00) {dimensions = array<i64: 0, 1>} : (tensor<1x1x4x8xf32>) -> tensor<4x8xf32>
  %m01 = "jaxpr.squeeze"(%k01) {dimensions = array<i64: 0, 1>} : (tensor<1x1x4x8xf32>) -> tensor<4x8xf32>
  %m10 = "jaxpr.squeeze"(%k10) {dimensions = array<i64: 0, 1>} : (tensor<1x1x4x8xf32>) -> tensor<4x8xf32>
  %m11 = "jaxpr.squeeze"(%k11) {dimensions = array<i64: 0, 1>} : (tensor<1x1x4x8xf32>) -> tensor<4x8xf32>
  %p00 = "jaxpr.dot_general"(%x00, %m00) {dimension_numbers = [[array<i64: 2>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<4x4x4xf32>, tensor<4x8xf32>) -> tensor<4x4x8xf32>
  %p01 = "jaxpr.dot_general"(%x01, %m01) {dimension_numbers = [[array<i64: 2>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<4x4x4xf32>, tensor<4x8xf32>) -> tensor<4x4x8xf32>
  %p10 = "jaxpr.dot_general"(%x10, %m10) {dimension_numbers = [[array<i64: 2>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<4x4x4xf32>, tensor<4x8xf32>) -> tensor<4x4x8xf32>
  %p11 = "jaxpr.dot_general"(%x11, %m11) {dimension_numbers = [[array<i64: 2>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<4x4x4xf32>, tensor<4x8xf32>) -> tensor<4x4x8xf32>
  %s1 = "jaxpr.add"(%p00, %p01) : (tensor<4x4x8xf32>, tensor<4x4x8xf32>) -> tensor<4x4x8xf32>
  %s2 = "jaxpr.add"(%s1, %p10) : (tensor<4x4x8xf32>, tensor<4x4x8xf32>) -> tensor<4x4x8xf32>
  %s3 = "jaxpr.add"(%s2, %p11) : (tensor<4x4x8xf32>, tensor<4x4x8xf32>) -> tensor<4x4x8xf32>
  %corner = "jaxpr.slice"(%s3) {limit_indices = array<i64: 4, 1, 1>, start_indices = array<i64: 0, 0, 0>} : (tensor<4x4x8xf32>) -> tensor<4x1x1xf32>
  %out = "jaxpr.reshape"(%corner) {new_sizes = array<i64: 4>} : (tensor<4x1x1xf32>) -> tensor<4xf32>
  return %out : tensor<4xf32>
}

// A window with a hole is not raised: one product is missing.
// CHECK-LABEL: func.func private @hole
// CHECK-COUNT-3: "jaxpr.dot_general"
func.func private @hole(%x: tensor<5x5x4xf32>, %m: tensor<4x8xf32>) -> tensor<4x4x8xf32> {
  %x00 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4, 4, 4>, start_indices = array<i64: 0, 0, 0>} : (tensor<5x5x4xf32>) -> tensor<4x4x4xf32>
  %x01 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4, 5, 4>, start_indices = array<i64: 0, 1, 0>} : (tensor<5x5x4xf32>) -> tensor<4x4x4xf32>
  %x11 = "jaxpr.slice"(%x) {limit_indices = array<i64: 5, 5, 4>, start_indices = array<i64: 1, 1, 0>} : (tensor<5x5x4xf32>) -> tensor<4x4x4xf32>
  %p00 = "jaxpr.dot_general"(%x00, %m) {dimension_numbers = [[array<i64: 2>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<4x4x4xf32>, tensor<4x8xf32>) -> tensor<4x4x8xf32>
  %p01 = "jaxpr.dot_general"(%x01, %m) {dimension_numbers = [[array<i64: 2>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<4x4x4xf32>, tensor<4x8xf32>) -> tensor<4x4x8xf32>
  %p11 = "jaxpr.dot_general"(%x11, %m) {dimension_numbers = [[array<i64: 2>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<4x4x4xf32>, tensor<4x8xf32>) -> tensor<4x4x8xf32>
  %s1 = "jaxpr.add"(%p00, %p01) : (tensor<4x4x8xf32>, tensor<4x4x8xf32>) -> tensor<4x4x8xf32>
  %s2 = "jaxpr.add"(%s1, %p11) : (tensor<4x4x8xf32>, tensor<4x4x8xf32>) -> tensor<4x4x8xf32>
  return %s2 : tensor<4x4x8xf32>
}
