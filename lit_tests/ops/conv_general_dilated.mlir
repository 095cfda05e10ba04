// conv_general_dilated: Convolution of batches of images with kernels: strides, padding, dilations,
// groups.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[[1.0, 2.0, 3.0]]], [[[1.0, 0.0, -1.0]]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.conv_general_dilated"(%{{.*}}, %{{.*}}) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 1, 2>, out_spec = array<i64: 0, 1, 2>, rhs_spec = array<i64: 0, 1, 2>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 1, 1>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x1x3xf32>, tensor<1x1x3xf32>) -> tensor<1x1x3xf32>
// HLO: stablehlo.convolution(%{{.*}}, %{{.*}}) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window =
// EXEC: result: f32[1,1,3] = {{\[\[}}[-2.0, -2.0, 2.0]]]
func.func public @conv_general_dilated(%arg0: tensor<1x1x3xf32>, %arg1: tensor<1x1x3xf32>) -> tensor<1x1x3xf32> {
  %0 = "jaxpr.conv_general_dilated"(%arg0, %arg1) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 1, 2>, out_spec = array<i64: 0, 1, 2>, rhs_spec = array<i64: 0, 1, 2>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 1, 1>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x1x3xf32>, tensor<1x1x3xf32>) -> tensor<1x1x3xf32>
  return %0 : tensor<1x1x3xf32>
}
