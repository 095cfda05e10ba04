// The batch is merged with the images' batch dimension; with a shared kernel, it is one convolution.
//
//   [1, 2, 3] and [4, 5, 6], convolved with [1, 10]

// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=0,-1' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[[[[1.0, 2.0, 3.0]]], [[[4.0, 5.0, 6.0]]]], [[[1.0, 10.0]]]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.vmap(%[[X:.*]]: tensor<2x1x1x3xf32>, %[[K:.*]]: tensor<1x1x2xf32>)
// CHECK-NEXT:   %[[IMAGES:.*]] = "jaxpr.reshape"(%[[X]]) {{.*}} -> tensor<2x1x3xf32>
// CHECK-NEXT:   "jaxpr.conv_general_dilated"(%[[IMAGES]], %[[K]]) {{.*}} -> tensor<2x1x2xf32>

// EXEC:      result: f32[2,1,1,2] = {{\[\[\[}}[21.0, 32.0]]],
// EXEC:      {{\[\[}}[54.0, 65.0]]]]
func.func public @f(%x: tensor<1x1x3xf32>, %k: tensor<1x1x2xf32>) -> tensor<1x1x2xf32> {
  %0 = "jaxpr.conv_general_dilated"(%x, %k) {dimension_numbers = {ConvDimensionNumbers = {lhs_spec = array<i64: 0, 1, 2>, out_spec = array<i64: 0, 1, 2>, rhs_spec = array<i64: 0, 1, 2>}}, lhs_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], rhs_dilation = array<i64: 1>, window_strides = array<i64: 1>} : (tensor<1x1x3xf32>, tensor<1x1x2xf32>) -> tensor<1x1x2xf32>
  return %0 : tensor<1x1x2xf32>
}
