// xla_metadata_call: Calls a function whose ops carry metadata for XLA, such as a scheduling group.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// REQUIRES: jax-0.12

// CHECK: "jaxpr.xla_metadata_call"(%{{.*}}) {jaxpr = @square, xla_metadata = {{\[\[}}"scheduling_group", "1"]]} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: call @
// EXEC: result: f32[2] = [1.0, 4.0]
func.func public @xla_metadata_call(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.xla_metadata_call"(%arg0) {jaxpr = @square, xla_metadata = [["scheduling_group", "1"]]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @square(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
