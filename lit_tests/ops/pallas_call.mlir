// pallas_call: Runs a kernel, a function on references to blocks, over a grid.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.pallas_call"(%{{.*}}) {grid_mapping = {pallas.core.GridMapping = {block_mappings = [{pallas.core.BlockMapping = {array_aval = tensor<4xf32>, block_shape = [{pallas.core.Blocked = {block_size = 4 : i64}}], index_map_jaxpr = @default_index_map, index_map_out_tree = {pytree = ["*"]}, origin = "args[0]", transformed_block_aval = !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>}}, {pallas.core.BlockMapping = {array_aval = tensor<4xf32>, block_shape = [{pallas.core.Blocked = {block_size = 4 : i64}}], index_map_jaxpr = @default_index_map_0, index_map_out_tree = {pytree = ["*"]}, origin = "outputs", transformed_block_aval = !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>}}], grid = [], grid_names = none, index_map_avals = [], index_map_tree = {pytree = {{\[\[}}], {dict = []}]}, num_index_operands = 0 : i64, num_inputs = 1 : i64, num_outputs = 1 : i64, scratch_avals = [], vmapped_dims = []}}, interpret = true, jaxpr = @doubled, out_avals = [tensor<4xf32>]} : (tensor<4xf32>) -> tensor<4xf32>
// HLO: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// EXEC: result: f32[4] = [2.0, 4.0, 6.0, 8.0]
func.func public @pallas_call(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.pallas_call"(%arg0) {grid_mapping = {pallas.core.GridMapping = {block_mappings = [{pallas.core.BlockMapping = {array_aval = tensor<4xf32>, block_shape = [{pallas.core.Blocked = {block_size = 4 : i64}}], index_map_jaxpr = @default_index_map, index_map_out_tree = {pytree = ["*"]}, origin = "args[0]", transformed_block_aval = !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>}}, {pallas.core.BlockMapping = {array_aval = tensor<4xf32>, block_shape = [{pallas.core.Blocked = {block_size = 4 : i64}}], index_map_jaxpr = @default_index_map_0, index_map_out_tree = {pytree = ["*"]}, origin = "outputs", transformed_block_aval = !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>}}], grid = [], grid_names = none, index_map_avals = [], index_map_tree = {pytree = [[], {dict = []}]}, num_index_operands = 0 : i64, num_inputs = 1 : i64, num_outputs = 1 : i64, scratch_avals = [], vmapped_dims = []}}, interpret = true, jaxpr = @doubled, out_avals = [tensor<4xf32>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @doubled(%arg0: !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>, %arg1: !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>) {
  %0 = "jaxpr.get"(%arg0) {jaxpr.effects = [{ReadEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>) -> tensor<4xf32>
  %1 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %2 = "jaxpr.mul"(%1, %0) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "jaxpr.swap"(%arg1, %2) {jaxpr.effects = [{WriteEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>, tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func private @default_index_map() -> tensor<i32, {weak_type}> {
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, {weak_type}>
  return %0 : tensor<i32, {weak_type}>
}
func.func private @default_index_map_0() -> tensor<i32, {weak_type}> {
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, {weak_type}>
  return %0 : tensor<i32, {weak_type}>
}
