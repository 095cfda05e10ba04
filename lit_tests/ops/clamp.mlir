// clamp: x limited to an interval, min(max(x, lo), hi); operands (lo, x, hi).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '-1.0, [-3.0, 0.5, 3.0], 1.0' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.clamp"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<f32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
// HLO: stablehlo.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<3xf32>
// EXEC: result: f32[3] = [-1.0, 0.5, 1.0]
func.func public @clamp(%arg0: tensor<f32>, %arg1: tensor<3xf32>, %arg2: tensor<f32>) -> tensor<3xf32> {
  %0 = "jaxpr.clamp"(%arg0, %arg1, %arg2) : (tensor<f32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
