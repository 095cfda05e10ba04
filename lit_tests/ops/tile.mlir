// tile: Repeats the operand reps[i] times along dimension i.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.tile"(%{{.*}}) {reps = array<i64: 2>} : (tensor<2xf32>) -> tensor<4xf32>
// HLO: stablehlo.reshape %{{.*}} : (tensor<2xf32>) -> tensor<1x2xf32>
// HLO: stablehlo.broadcast_in_dim %{{.*}}, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.reshape %{{.*}} : (tensor<2x2xf32>) -> tensor<4xf32>
// EXEC: result: f32[4] = [1.0, 2.0, 1.0, 2.0]
func.func public @tile(%arg0: tensor<2xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.tile"(%arg0) {reps = array<i64: 2>} : (tensor<2xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
