// select_and_gather_add: Derivative of a windowed maximum or minimum: the tangent at the element
// that each window of the second operand selects.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.0, 1.0, 3.0, 2.0], [1.0, 5.0, 2.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.select_and_gather_add"(%{{.*}}, %{{.*}}) {base_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], select_prim = {primitive = "ge"}, window_dilation = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<2xf32>
// HLO: "stablehlo.reduce_window"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// HLO: stablehlo.compare GE, %{{.*}}, %{{.*}}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
// HLO: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<f32>
// EXEC: result: f32[2] = [1.0, 2.0]
func.func public @select_and_gather_add(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.select_and_gather_add"(%arg0, %arg1) {base_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], select_prim = {primitive = "ge"}, window_dilation = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
