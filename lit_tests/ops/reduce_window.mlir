// reduce_window: Reduction of every window by any associative function; operands (*arrays, *initial
// values).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 5.0, 2.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reduce_window"(%{{.*}}, %{{.*}}) {base_dilation = array<i64: 1>, jaxpr = @lambda, padding = [array<i64: 0, 0>], window_dilation = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>
// HLO: "stablehlo.reduce_window"(%{{.*}}, %{{.*}})
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<f32>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
// EXEC: result: f32[2] = [12.0, 15.0]
func.func public @reduce_window(%arg0: tensor<4xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.reduce_window"(%arg0, %0) {base_dilation = array<i64: 1>, jaxpr = @lambda, padding = [array<i64: 0, 0>], window_dilation = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%arg0, %arg1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%0, %arg0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
