// pad: Pads the operand with the second operand, a scalar, by (low, high, interior) in each
// dimension.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0], 9.0' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.pad"(%{{.*}}, %{{.*}}) {padding_config = [array<i64: 1, 0, 1>]} : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
// HLO: stablehlo.pad %{{.*}}, %{{.*}}, low = [1], high = [0], interior = [1] : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
// EXEC: result: f32[4] = [9.0, 1.0, 9.0, 2.0]
func.func public @pad(%arg0: tensor<2xf32>, %arg1: tensor<f32>) -> tensor<4xf32> {
  %0 = "jaxpr.pad"(%arg0, %arg1) {padding_config = [array<i64: 1, 0, 1>]} : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
