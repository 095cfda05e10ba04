// select_and_scatter_add: Transpose of a windowed maximum or minimum: adds each source element at
// the element that its window of the second operand selects.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[10.0, 20.0], [1.0, 5.0, 2.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.select_and_scatter_add"(%{{.*}}, %{{.*}}) {padding = [array<i64: 0, 0>], select_prim = {primitive = "ge"}, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<2xf32>, tensor<4xf32>) -> tensor<4xf32>
// HLO: stablehlo.pad %{{.*}}, %{{.*}}, low = [0], high = [0], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// HLO: "stablehlo.select_and_scatter"(%{{.*}}, %{{.*}}, %{{.*}})
// HLO: stablehlo.compare GE, %{{.*}}, %{{.*}}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
// EXEC: result: f32[4] = [0.0, 10.0, 0.0, 20.0]
func.func public @select_and_scatter_add(%arg0: tensor<2xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.select_and_scatter_add"(%arg0, %arg1) {padding = [array<i64: 0, 0>], select_prim = {primitive = "ge"}, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<2xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
