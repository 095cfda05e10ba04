// Slices at different places in each block become one gather of the batch: tanh(w x[i])[label[i]], where the labels are numbers.

// RUN: jaxmlir-opt --jaxpr-vectorize-blocks='min-gain=0 stacked=1000' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-vectorize-blocks='min-gain=1000000' %s -o %t.dear
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.dear %t.same
// RUN: jaxmlir-run %s --args '[[1.0, 0.0], [0.0, 2.0], [0.5, -1.0]], [[0.0, 1.0], [1.0, 0.0], [0.25, 0.5], [-1.0, 1.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 0.0], [0.0, 2.0], [0.5, -1.0]], [[0.0, 1.0], [1.0, 0.0], [0.25, 0.5], [-1.0, 1.0]]' | FileCheck %s --check-prefix=EXEC

// EXEC: result: f32[] = 1.51513
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[W:.*]]: tensor<3x2xf32>, %[[X:.*]]: tensor<4x2xf32>)
// CHECK:         %[[LABELS:.*]] = "jaxpr.constant"() {value = dense<[2, 0, 1, 2]> : tensor<4xi32>}
// CHECK-NEXT:    %[[P:.*]] = "jaxpr.dot_general"(%[[W]], %[[X]]) {{.*}} -> tensor<3x4xf32>
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.tanh"(%[[P]])
// CHECK:         %[[INDICES:.*]] = "jaxpr.broadcast_in_dim"(%[[LABELS]])
// CHECK-NEXT:    %[[ROWS:.*]] = "jaxpr.transpose"(%[[Y]])
// CHECK-NEXT:    "jaxpr.gather"(%[[ROWS]], %[[INDICES]])
// CHECK-NOT:     "jaxpr.tanh"
func.func public @main(%w: tensor<3x2xf32>, %x: tensor<4x2xf32>) -> tensor<f32> {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 1, 2>, start_indices = array<i64: 0, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %1 = "jaxpr.squeeze"(%0) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.dot_general"(%w, %1) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3xf32>
  %3 = "jaxpr.tanh"(%2) : (tensor<3xf32>) -> tensor<3xf32>
  %4 = "jaxpr.reduce_sum"(%3) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %5 = "jaxpr.slice"(%3) {limit_indices = array<i64: 3>, start_indices = array<i64: 2>} : (tensor<3xf32>) -> tensor<1xf32>
  %6 = "jaxpr.squeeze"(%5) {dimensions = array<i64: 0>} : (tensor<1xf32>) -> tensor<f32>
  %7 = "jaxpr.sub"(%4, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %8 = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %9 = "jaxpr.add"(%8, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %10 = "jaxpr.slice"(%x) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 1, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %11 = "jaxpr.squeeze"(%10) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %12 = "jaxpr.dot_general"(%w, %11) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3xf32>
  %13 = "jaxpr.tanh"(%12) : (tensor<3xf32>) -> tensor<3xf32>
  %14 = "jaxpr.reduce_sum"(%13) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %15 = "jaxpr.slice"(%13) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<3xf32>) -> tensor<1xf32>
  %16 = "jaxpr.squeeze"(%15) {dimensions = array<i64: 0>} : (tensor<1xf32>) -> tensor<f32>
  %17 = "jaxpr.sub"(%14, %16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %18 = "jaxpr.add"(%9, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %19 = "jaxpr.slice"(%x) {limit_indices = array<i64: 3, 2>, start_indices = array<i64: 2, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %20 = "jaxpr.squeeze"(%19) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %21 = "jaxpr.dot_general"(%w, %20) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3xf32>
  %22 = "jaxpr.tanh"(%21) : (tensor<3xf32>) -> tensor<3xf32>
  %23 = "jaxpr.reduce_sum"(%22) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %24 = "jaxpr.slice"(%22) {limit_indices = array<i64: 2>, start_indices = array<i64: 1>} : (tensor<3xf32>) -> tensor<1xf32>
  %25 = "jaxpr.squeeze"(%24) {dimensions = array<i64: 0>} : (tensor<1xf32>) -> tensor<f32>
  %26 = "jaxpr.sub"(%23, %25) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %27 = "jaxpr.add"(%18, %26) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %28 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4, 2>, start_indices = array<i64: 3, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %29 = "jaxpr.squeeze"(%28) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %30 = "jaxpr.dot_general"(%w, %29) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3xf32>
  %31 = "jaxpr.tanh"(%30) : (tensor<3xf32>) -> tensor<3xf32>
  %32 = "jaxpr.reduce_sum"(%31) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %33 = "jaxpr.slice"(%31) {limit_indices = array<i64: 3>, start_indices = array<i64: 2>} : (tensor<3xf32>) -> tensor<1xf32>
  %34 = "jaxpr.squeeze"(%33) {dimensions = array<i64: 0>} : (tensor<1xf32>) -> tensor<f32>
  %35 = "jaxpr.sub"(%32, %34) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %36 = "jaxpr.add"(%27, %35) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %36 : tensor<f32>
}
