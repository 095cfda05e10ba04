// program_order: Calls a function whose ops run in the order in which they are written, enforced or
// as a hint.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// REQUIRES: jax-0.11 || jax-0.12

// CHECK: "jaxpr.program_order"(%{{.*}}) {call_jaxpr = @square, enforce = true, exclude_mask = array<i1: false>, strict_in = false, strict_out = false} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 4.0]
func.func public @program_order(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.program_order"(%arg0) {call_jaxpr = @square, enforce = true, exclude_mask = array<i1: false>, strict_in = false, strict_out = false} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @square(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
