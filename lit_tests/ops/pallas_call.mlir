// pallas_call: Runs a kernel, a function on references to blocks, over a grid.

// RUN: jaxmlir-opt %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER

// It holds a Python object, which text cannot: such an op runs in its own process alone.

// CHECK: "jaxpr.pallas_call"(%{{.*}}) {grid_mapping = {handle = "h0"}, interpret = true, jaxpr = @doubled, out_avals = [tensor<4xf32>]} : (tensor<4xf32>) -> tensor<4xf32>
// OTHER: stands for a Python object of another process
func.func public @pallas_call(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.pallas_call"(%arg0) {grid_mapping = {handle = "h0"}, interpret = true, jaxpr = @doubled, out_avals = [tensor<4xf32>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @doubled(%arg0: !jaxpr.aval<"Ref<default>{float32[4]}", "h1">, %arg1: !jaxpr.aval<"Ref<default>{float32[4]}", "h1">) {
  %0 = "jaxpr.get"(%arg0) {jaxpr.effects = [{ReadEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.aval<"Ref<default>{float32[4]}", "h1">) -> tensor<4xf32>
  %1 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %2 = "jaxpr.mul"(%1, %0) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "jaxpr.swap"(%arg1, %2) {jaxpr.effects = [{WriteEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.aval<"Ref<default>{float32[4]}", "h1">, tensor<4xf32>) -> tensor<4xf32>
  return
}
