// program_id: This program's index along a grid axis.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.program_id"() {axis = 0 : i64} : () -> tensor<i32>
// HLO: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<i32>, tensor<4xf32>, tensor<4xf32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// EXEC: result: f32[4] = [1.0, 12.0, 23.0, 34.0]
func.func public @program_id(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.pallas_call"(%arg0) {grid_mapping = {pallas.core.GridMapping = {block_mappings = [{pallas.core.BlockMapping = {array_aval = tensor<4xf32>, block_shape = [{pallas.core.Blocked = {block_size = 4 : i64}}], index_map_jaxpr = @default_index_map, index_map_out_tree = {pytree = ["*"]}, origin = "args[0]", transformed_block_aval = !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>}}, {pallas.core.BlockMapping = {array_aval = tensor<4xf32>, block_shape = [{pallas.core.Blocked = {block_size = 4 : i64}}], index_map_jaxpr = @default_index_map_0, index_map_out_tree = {pytree = ["*"]}, origin = "outputs", transformed_block_aval = !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>}}], grid = array<i64: 4>, grid_names = none, index_map_avals = [tensor<i32>], index_map_tree = {pytree = [["*"], {dict = []}]}, num_index_operands = 0 : i64, num_inputs = 1 : i64, num_outputs = 1 : i64, scratch_avals = [], vmapped_dims = []}}, interpret = true, jaxpr = @counted, out_avals = [tensor<4xf32>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @counted(%arg0: !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>, %arg1: !jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>) {
  %0 = "jaxpr.program_id"() {axis = 0 : i64} : () -> tensor<i32>
  %1 = "jaxpr.get"(%arg0, %0) {jaxpr.effects = [{ReadEffect = 0 : i64}], tree = {pytree = [{node = ["jax._src.state.indexing:NDIndexer", [{pytree = ["*"]}, array<i64: 4>, []], ["*"]]}]}} : (!jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>, tensor<i32>) -> tensor<f32>
  %2 = "jaxpr.constant"() {value = dense<10> : tensor<i32>} : () -> tensor<i32>
  %3 = "jaxpr.mul"(%2, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %4 = "jaxpr.convert_element_type"(%3) {new_dtype = f32} : (tensor<i32>) -> tensor<f32>
  %5 = "jaxpr.add"(%1, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %6 = "jaxpr.swap"(%arg1, %5, %0) {jaxpr.effects = [{WriteEffect = 0 : i64}], tree = {pytree = [{node = ["jax._src.state.indexing:NDIndexer", [{pytree = ["*"]}, array<i64: 4>, []], ["*"]]}]}} : (!jaxpr.ref<tensor<4xf32, {memory_space = {pallas.core.MemorySpace = "DEFAULT"}}>>, tensor<f32>, tensor<i32>) -> tensor<f32>
  return
}
func.func private @default_index_map(%arg0: tensor<i32>) -> tensor<i32, {weak_type}> {
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, {weak_type}>
  return %0 : tensor<i32, {weak_type}>
}
func.func private @default_index_map_0(%arg0: tensor<i32>) -> tensor<i32, {weak_type}> {
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, {weak_type}>
  return %0 : tensor<i32, {weak_type}>
}
