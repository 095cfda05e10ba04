// compute_on: Calls a function on another kind of processor, such as the host.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.compute_on"(%{{.*}}) {compute_type = "device_host", jaxpr = @square, out_memory_spaces = [{MemorySpace = "Device"}]} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: call @
// EXEC: result: f32[2] = [1.0, 4.0]
func.func public @compute_on(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.compute_on"(%arg0) {compute_type = "device_host", jaxpr = @square, out_memory_spaces = [{MemorySpace = "Device"}]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @square(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg0) {jaxpr.ctx = {compute_type = "device_host"}} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
