// Convolutions that are slow on the CPU become other convolutions.

// RUN: jaxmlir-opt --jaxpr-expand-convolutions=calls=inf %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-convolutions=calls=inf %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --entry groups --args '[[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]], [[[1.0, 0.5]], [[100.0, 0.25]]]' | FileCheck %s --check-prefix=GROUPS
// RUN: jaxmlir-run %t --entry groups --args '[[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]], [[[1.0, 0.5]], [[100.0, 0.25]]]' | FileCheck %s --check-prefix=GROUPS
// RUN: jaxmlir-run %s --entry batch --args '[[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]], [[1.0], [0.0], [1.0]], [[0.0], [1.0], [0.0]]], [[[1.0, 10.0]], [[1.0, 10.0]]]' | FileCheck %s --check-prefix=BATCH
// RUN: jaxmlir-run %t --entry batch --args '[[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]], [[1.0], [0.0], [1.0]], [[0.0], [1.0], [0.0]]], [[[1.0, 10.0]], [[1.0, 10.0]]]' | FileCheck %s --check-prefix=BATCH
// RUN: jaxmlir-run %s --entry dilated --args '[[[1.0], [2.0]]], [[[1.0]], [[10.0]], [[100.0]]]' | FileCheck %s --check-prefix=DILATED
// RUN: jaxmlir-run %t --entry dilated --args '[[[1.0], [2.0]]], [[[1.0]], [[10.0]], [[100.0]]]' | FileCheck %s --check-prefix=DILATED
// RUN: jaxmlir-run %s --entry three --args '[[[[[1.0]]], [[[2.0]]], [[[3.0]]]]], [[[[[1.0]]]], [[[[10.0]]]]]' | FileCheck %s --check-prefix=THREE
// RUN: jaxmlir-run %t --entry three --args '[[[[[1.0]]], [[[2.0]]], [[[3.0]]]]], [[[[[1.0]]]], [[[[10.0]]]]]' | FileCheck %s --check-prefix=THREE
// RUN: jaxmlir-run %s --entry order --args '[[[1.0, 2.0, 3.0]]]' | FileCheck %s --check-prefix=ORDER
// RUN: jaxmlir-run %t --entry order --args '[[[1.0, 2.0, 3.0]]]' | FileCheck %s --check-prefix=ORDER
// RUN: jaxmlir-run %s --entry padded --args '[[[1.0], [2.0], [3.0], [4.0]]]' | FileCheck %s --check-prefix=PADDED
// RUN: jaxmlir-run %t --entry padded --args '[[[1.0], [2.0], [3.0], [4.0]]]' | FileCheck %s --check-prefix=PADDED
// RUN: jaxmlir-opt --jaxpr-expand-convolutions=calls=inf --remarks=all %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-convolutions.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-convolutions] split into one convolution per group
// REMARK: expand-convolutions.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-convolutions] replaced 2 batch groups by feature groups
// REMARK: expand-convolutions.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-convolutions] split by phase, which skips the zeros of a dilated array
// REMARK: expand-convolutions.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-convolutions] split into convolutions in two dimensions
// REMARK: expand-convolutions.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-convolutions] transposed into the dimension order of the library
// REMARK: expand-convolutions.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-convolutions] padded by a separate op

// CHECK-LABEL: func.func public @groups
// CHECK-COUNT-2: "jaxpr.conv_general_dilated"({{.*}} -> tensor<1x2x1xf32>
// CHECK:         "jaxpr.concatenate"

// GROUPS: result: f32[1,2,2] = {{\[\[\[}}201.0, 10.0],
// GROUPS-NEXT: [302.0, 17.5]]]
func.func public @groups(%x: tensor<1x3x2xf32>, %k: tensor<2x1x2xf32>) -> tensor<1x2x2xf32> {
  %0 = "jaxpr.conv_general_dilated"(%x, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 2, 1>, out_spec = array<i64: 0, 2, 1>, rhs_spec = array<i64: 2, 1, 0>}}, feature_group_count = 2 : i64, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x3x2xf32>, tensor<2x1x2xf32>) -> tensor<1x2x2xf32>
  return %0 : tensor<1x2x2xf32>
}

// Two groups of two examples; each group has its own result feature.
// CHECK-LABEL: func.func public @batch
// CHECK-NOT:     batch_group_count
// CHECK-COUNT-2: "jaxpr.conv_general_dilated"({{.*}} -> tensor<2x2x1xf32>

// BATCH: result: f32[2,2,2] = {{\[\[\[}}3.0, 10.0],
// BATCH-NEXT: [5.0, 10.0]],
// BATCH: {{\[\[}}9.0, 10.0],
// BATCH-NEXT: [11.0, 10.0]]]
func.func public @batch(%x: tensor<4x3x1xf32>, %k: tensor<2x1x2xf32>) -> tensor<2x2x2xf32> {
  %0 = "jaxpr.conv_general_dilated"(%x, %k) {batch_group_count = 2 : i64, dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 2, 1>, out_spec = array<i64: 0, 2, 1>, rhs_spec = array<i64: 2, 1, 0>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<4x3x1xf32>, tensor<2x1x2xf32>) -> tensor<2x2x2xf32>
  return %0 : tensor<2x2x2xf32>
}

// One result, with two zeros between the elements: 1 0 0 2 meets 1 10 100.
// CHECK-LABEL: func.func public @dilated
// CHECK:         "jaxpr.conv_general_dilated"({{.*}}lhs_dilation = array<i64: 1>
// CHECK-NOT:     lhs_dilation = array<i64: 3>

// DILATED: result: f32[1,2,1] = {{\[\[\[}}1.0],
// DILATED-NEXT: [200.0]]]
func.func public @dilated(%x: tensor<1x2x1xf32>, %k: tensor<3x1x1xf32>) -> tensor<1x2x1xf32> {
  %0 = "jaxpr.conv_general_dilated"(%x, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 2, 1>, out_spec = array<i64: 0, 2, 1>, rhs_spec = array<i64: 2, 1, 0>}}, lhs_dilation = array<i64: 3>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x2x1xf32>, tensor<3x1x1xf32>) -> tensor<1x2x1xf32>
  return %0 : tensor<1x2x1xf32>
}

// A dimension in which the kernel has size 1 is dropped.
// CHECK-LABEL: func.func public @three
// CHECK:         "jaxpr.conv_general_dilated"({{.*}} window_strides = array<i64: 1, 1>}
// CHECK-NOT:     window_strides = array<i64: 1, 1, 1>

// THREE: result: f32[1,2,1,1,1] = {{\[\[\[\[\[}}21.0]]],
// THREE: 32.0
func.func public @three(%x: tensor<1x3x1x1x1xf32>, %k: tensor<2x1x1x1x1xf32>) -> tensor<1x2x1x1x1xf32> {
  %0 = "jaxpr.conv_general_dilated"(%x, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 4, 1, 2, 3>, out_spec = array<i64: 0, 4, 1, 2, 3>, rhs_spec = array<i64: 4, 3, 0, 1, 2>}}, lhs_dilation = array<i64: 1, 1, 1>, padding = [array<i64: 0, 0>, array<i64: 0, 0>, array<i64: 0, 0>], rhs_dilation = array<i64: 1, 1, 1>, window_strides = array<i64: 1, 1, 1>} : (tensor<1x3x1x1x1xf32>, tensor<2x1x1x1x1xf32>) -> tensor<1x2x1x1x1xf32>
  return %0 : tensor<1x2x1x1x1xf32>
}

// Features are the second dimension, as in lax.conv: transposes move them to the last place.
// CHECK-LABEL: func.func public @order
// CHECK:         "jaxpr.conv_general_dilated"({{.*}}lhs_spec = array<i64: 0, 2, 1>, out_spec = array<i64: 0, 2, 1>, rhs_spec = array<i64: 2, 1, 0>{{.*}} : (tensor<1x3x1xf32>, tensor<1x1x16xf32>) -> tensor<1x3x16xf32>
// CHECK-NEXT:    "jaxpr.transpose"({{.*}} -> tensor<1x16x3xf32>

// ORDER: result: f32[1,16,3] = {{\[\[\[}}2.0, 4.0, 6.0],
// ORDER-NEXT: [2.0, 4.0, 6.0],
func.func public @order(%x: tensor<1x1x3xf32>) -> tensor<1x16x3xf32> {
  %k = "jaxpr.constant"() {value = dense<2.0> : tensor<16x1x1xf32>} : () -> tensor<16x1x1xf32>
  %0 = "jaxpr.conv_general_dilated"(%x, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 1, 2>, out_spec = array<i64: 0, 1, 2>, rhs_spec = array<i64: 0, 1, 2>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x1x3xf32>, tensor<16x1x1xf32>) -> tensor<1x16x3xf32>
  return %0 : tensor<1x16x3xf32>
}

// The gradient of a kernel of three numbers, for one image: the window is as large as the image.
// CHECK-LABEL: func.func public @padded
// CHECK:         %[[X:.*]] = "jaxpr.pad"({{.*}} -> tensor<1x6x1xf32>
// CHECK-NEXT:    %[[T:.*]] = "jaxpr.transpose"(%[[X]])
// CHECK:         "jaxpr.conv_general_dilated"(%[[T]], {{.*}} padding = [array<i64: 0, 0>]

// PADDED: result: f32[3,1,4] = {{\[\[\[}}6.0, 6.0, 6.0, 6.0]],
// PADDED: {{\[\[}}10.0, 10.0, 10.0, 10.0]],
// PADDED: {{\[\[}}9.0, 9.0, 9.0, 9.0]]]
func.func public @padded(%x: tensor<1x4x1xf32>) -> tensor<3x1x4xf32> {
  %y = "jaxpr.constant"() {value = dense<1.0> : tensor<1x4x4xf32>} : () -> tensor<1x4x4xf32>
  %0 = "jaxpr.conv_general_dilated"(%x, %y) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 2, 0, 1>, out_spec = array<i64: 1, 2, 0>, rhs_spec = array<i64: 2, 0, 1>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 1, 1>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x4x1xf32>, tensor<1x4x4xf32>) -> tensor<3x1x4xf32>
  return %0 : tensor<3x1x4xf32>
}
