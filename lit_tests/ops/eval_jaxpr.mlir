// eval_jaxpr: Calls a function that is evaluated in place.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// REQUIRES: jax-0.12

// CHECK: "jaxpr.eval_jaxpr"(%{{.*}}) {call_jaxpr = @square} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 4.0]
func.func public @eval_jaxpr(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.eval_jaxpr"(%arg0) {call_jaxpr = @square} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @square(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
