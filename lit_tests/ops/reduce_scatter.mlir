// reduce_scatter: psum whose result is scattered: each device keeps its part along a dimension.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reduce_scatter"(%{{.*}}) {axis_name = ["i"], axis_size = 2 : i64
// HLO: "stablehlo.reduce_scatter"(%{{.*}})
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
// EXEC: result: f32[2] = [4.0, 6.0]
#mesh = {Mesh = {axis_names = ["i"], axis_types = [{AxisType = "Auto"}], devices = [{Device = "cpu:0"}, {Device = "cpu:1"}], shape = array<i64: 2>}}
#mesh1 = {AbstractMesh = {abstract_device = {AbstractDevice = {device_kind = "cpu", num_cores = none, platform = "cpu"}}, axis_names = ["i"], axis_sizes = array<i64: 2>, axis_types = [{AxisType = "Manual"}]}}
func.func public @reduce_scatter(%arg0: tensor<4xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.shard_map"(%arg0) {check_vma = false, in_specs = [{PartitionSpec = ["i"]}], jaxpr = @lambda, mesh = #mesh, newly_manual_axes = {set = ["i"]}, out_specs = [{PartitionSpec = ["i"]}]} : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<1xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}> {
  %0 = "jaxpr.reduce_scatter"(%arg0) {axis_name = ["i"], axis_size = 2 : i64, jaxpr.ctx = {cur_abstract_mesh = #mesh1}, jaxpr.effects = [{NamedAxisEffect = "i"}], scatter_dimension = 0 : i64, tiled = true} : (tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<1xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>
  return %0 : tensor<1xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>
}
