// program_id: This program's index along a grid axis.

// RUN: jaxmlir-opt %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER

// It holds a Python object, which text cannot: such an op runs in its own process alone.

// CHECK: "jaxpr.program_id"() {axis = 0 : i64} : () -> tensor<i32>
// OTHER: stands for a Python object of another process
func.func public @program_id(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.pallas_call"(%arg0) {grid_mapping = {handle = "h0"}, interpret = true, jaxpr = @counted, out_avals = [tensor<4xf32>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @counted(%arg0: !jaxpr.aval<"Ref<default>{float32[4]}", "h1">, %arg1: !jaxpr.aval<"Ref<default>{float32[4]}", "h1">) {
  %0 = "jaxpr.program_id"() {axis = 0 : i64} : () -> tensor<i32>
  %1 = "jaxpr.get"(%arg0, %0) {jaxpr.effects = [{ReadEffect = 0 : i64}], tree = {pytree = [{node = ["jax._src.state.indexing:NDIndexer", [{pytree = ["*"]}, array<i64: 4>, []], ["*"]]}]}} : (!jaxpr.aval<"Ref<default>{float32[4]}", "h1">, tensor<i32>) -> tensor<f32>
  %2 = "jaxpr.constant"() {value = dense<10> : tensor<i32>} : () -> tensor<i32>
  %3 = "jaxpr.mul"(%2, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %4 = "jaxpr.convert_element_type"(%3) {new_dtype = f32} : (tensor<i32>) -> tensor<f32>
  %5 = "jaxpr.add"(%1, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %6 = "jaxpr.swap"(%arg1, %5, %0) {jaxpr.effects = [{WriteEffect = 0 : i64}], tree = {pytree = [{node = ["jax._src.state.indexing:NDIndexer", [{pytree = ["*"]}, array<i64: 4>, []], ["*"]]}]}} : (!jaxpr.aval<"Ref<default>{float32[4]}", "h1">, tensor<f32>, tensor<i32>) -> tensor<f32>
  return
}
