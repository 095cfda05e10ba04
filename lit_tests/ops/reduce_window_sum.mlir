// reduce_window_sum: Sum of every window.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 5.0, 2.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reduce_window_sum"(%{{.*}}) {base_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], window_dilation = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<3xf32>
// HLO: "stablehlo.reduce_window"(%{{.*}}, %{{.*}})
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
// EXEC: result: f32[3] = [6.0, 7.0, 6.0]
func.func public @reduce_window_sum(%arg0: tensor<4xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.reduce_window_sum"(%arg0) {base_dilation = array<i64: 1>, padding = [array<i64: 0, 0>], window_dilation = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
