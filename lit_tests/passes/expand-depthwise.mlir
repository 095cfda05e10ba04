// Depthwise convolutions (one kernel for each channel) and their gradients become products.

// RUN: jaxmlir-opt --jaxpr-expand-depthwise=calls=inf %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-depthwise=calls=inf %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --entry array --args '[[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]], [[[1.0, 0.5]], [[100.0, 0.25]]]' | FileCheck %s --check-prefix=ARRAY
// RUN: jaxmlir-run %t --entry array --args '[[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]], [[[1.0, 0.5]], [[100.0, 0.25]]]' | FileCheck %s --check-prefix=ARRAY
// RUN: jaxmlir-run %s --entry kernel --args '[[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]], [[[1.0, 0.5], [100.0, 0.25]]]' | FileCheck %s --check-prefix=KERNEL
// RUN: jaxmlir-run %t --entry kernel --args '[[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]], [[[1.0, 0.5], [100.0, 0.25]]]' | FileCheck %s --check-prefix=KERNEL
// RUN: jaxmlir-run %s --entry few --args '[[[1.0, 10.0], [2.0, 20.0]]], [[[1.0, 0.5], [100.0, 0.25]]]' | FileCheck %s --check-prefix=FEW
// RUN: jaxmlir-run %t --entry few --args '[[[1.0, 10.0], [2.0, 20.0]]], [[[1.0, 0.5], [100.0, 0.25]]]' | FileCheck %s --check-prefix=FEW
// RUN: jaxmlir-opt --jaxpr-expand-depthwise=calls=inf --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-depthwise.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-depthwise] expanded into products, one for each of 2 positions in a window
// REMARK: expand-depthwise.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-depthwise] expanded into products, one for each of 2 positions in a window

// The result is the sum of two products.
// CHECK-LABEL: func.func public @array
// CHECK:         %[[A:.*]] = "jaxpr.mul"({{.*}} -> tensor<1x2x2xf32>
// CHECK:         %[[B:.*]] = "jaxpr.mul"({{.*}} -> tensor<1x2x2xf32>
// CHECK:         "jaxpr.add"(%[[A]], %[[B]])

// ARRAY: result: f32[1,2,2] = {{\[\[\[}}201.0, 10.0],
// ARRAY-NEXT: [302.0, 17.5]]]
func.func public @array(%x: tensor<1x3x2xf32>, %k: tensor<2x1x2xf32>) -> tensor<1x2x2xf32> {
  %0 = "jaxpr.conv_general_dilated"(%x, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 2, 1>, out_spec = array<i64: 0, 2, 1>, rhs_spec = array<i64: 2, 1, 0>}}, feature_group_count = 2 : i64, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x3x2xf32>, tensor<2x1x2xf32>) -> tensor<1x2x2xf32>
  return %0 : tensor<1x2x2xf32>
}

// The gradient of the kernel is a loop over the kernel's numbers.
// CHECK-LABEL: func.func public @kernel
// CHECK:         "jaxpr.scan"
// CHECK-NOT:     conv_general_dilated

// KERNEL: result: f32[2,1,2] = {{\[\[\[}}201.0, 10.0]],
// KERNEL: {{\[\[}}302.0, 17.5]]]
func.func public @kernel(%x: tensor<1x3x2xf32>, %y: tensor<1x2x2xf32>) -> tensor<2x1x2xf32> {
  %0 = "jaxpr.conv_general_dilated"(%x, %y) {batch_group_count = 2 : i64, dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 2, 0, 1>, out_spec = array<i64: 1, 2, 0>, rhs_spec = array<i64: 2, 0, 1>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x3x2xf32>, tensor<1x2x2xf32>) -> tensor<2x1x2xf32>
  return %0 : tensor<2x1x2xf32>
}

// Two channels, each of which contributes to two results.
// CHECK-LABEL: func.func public @few
// CHECK-COUNT-2: "jaxpr.mul"({{.*}} -> tensor<1x2x2xf32>
// CHECK-NOT:     conv_general_dilated

// FEW: result: f32[1,2,2] = {{\[\[\[}}1001.0, 3.0],
// FEW-NEXT: [2002.0, 6.0]]]
func.func public @few(%x: tensor<1x2x2xf32>, %k: tensor<1x2x2xf32>) -> tensor<1x2x2xf32> {
  %0 = "jaxpr.conv_general_dilated"(%x, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 2, 1>, out_spec = array<i64: 0, 2, 1>, rhs_spec = array<i64: 2, 1, 0>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  return %0 : tensor<1x2x2xf32>
}
