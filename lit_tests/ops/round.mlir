// round: The nearest integer; rounding_method says where halves go.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-1.5, 0.5, 2.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.round"(%{{.*}}) {rounding_method = {RoundingMethod = "TO_NEAREST_EVEN"}} : (tensor<3xf32>) -> tensor<3xf32>
// HLO: stablehlo.round_nearest_even %{{.*}} : tensor<3xf32>
// EXEC: result: f32[3] = [-2.0, 0.0, 2.0]
func.func public @round(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.round"(%arg0) {rounding_method = {RoundingMethod = "TO_NEAREST_EVEN"}} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
