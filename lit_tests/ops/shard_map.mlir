// shard_map: Calls a function on every device of a mesh, each with its own shard of the operands.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.shard_map"(%{{.*}}) {in_specs = [{PartitionSpec = ["i"]}], jaxpr = @lambda, mesh = #mesh, newly_manual_axes = {set = ["i"]}, out_specs = [{PartitionSpec = ["i"]}]} : (tensor<4xf32>) -> tensor<4xf32>
// HLO: stablehlo.slice %{{.*}} [0:1] : (tensor<2xf32>) -> tensor<1xf32>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[4] = [2.0, 3.0, 6.0, 7.0]
#mesh = {Mesh = {axis_names = ["i"], axis_types = [{AxisType = "Auto"}], devices = [{Device = "cpu:0"}, {Device = "cpu:1"}], shape = array<i64: 2>}}
#mesh1 = {AbstractMesh = {abstract_device = {AbstractDevice = {device_kind = "cpu", num_cores = none, platform = "cpu"}}, axis_names = ["i"], axis_sizes = array<i64: 2>, axis_types = [{AxisType = "Manual"}]}}
func.func public @shard_map(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.shard_map"(%arg0) {in_specs = [{PartitionSpec = ["i"]}], jaxpr = @lambda, mesh = #mesh, newly_manual_axes = {set = ["i"]}, out_specs = [{PartitionSpec = ["i"]}]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @lambda(%arg0: tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}> {
  %0 = "jaxpr.slice"(%arg0) {jaxpr.ctx = {cur_abstract_mesh = #mesh1}, limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<1xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>
  %1 = "jaxpr.squeeze"(%0) {dimensions = array<i64: 0>, jaxpr.ctx = {cur_abstract_mesh = #mesh1}} : (tensor<1xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<f32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = []}}>
  %2 = "jaxpr.add"(%arg0, %1) {jaxpr.ctx = {cur_abstract_mesh = #mesh1}} : (tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>, tensor<f32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = []}}>) -> tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>
  return %2 : tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>
}
