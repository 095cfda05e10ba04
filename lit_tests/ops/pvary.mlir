// pvary: The operand, typed as varying over mesh axes.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.pvary"(%{{.*}}) {axes = ["i"]
// HLO: "stablehlo.all_reduce"(%{{.*}})
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[4] = [5.0, 8.0, 7.0, 10.0]
#mesh = {Mesh = {axis_names = ["i"], axis_types = [{AxisType = "Auto"}], devices = [{Device = "cpu:0"}, {Device = "cpu:1"}], shape = array<i64: 2>}}
#mesh1 = {AbstractMesh = {abstract_device = {AbstractDevice = {device_kind = "cpu", num_cores = none, platform = "cpu"}}, axis_names = ["i"], axis_sizes = array<i64: 2>, axis_types = [{AxisType = "Manual"}]}}
func.func public @pvary(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.shard_map"(%arg0) {in_specs = [{PartitionSpec = ["i"]}], jaxpr = @lambda, mesh = #mesh, newly_manual_axes = {set = ["i"]}, out_specs = [{PartitionSpec = ["i"]}]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @lambda(%arg0: tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}> {
  %0 = "jaxpr.psum_invariant"(%arg0) {axes = ["i"], jaxpr.ctx = {cur_abstract_mesh = #mesh1}, jaxpr.effects = [{NamedAxisEffect = "i"}]} : (tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>
  %1 = "jaxpr.pvary"(%0) {axes = ["i"], jaxpr.ctx = {cur_abstract_mesh = #mesh1}} : (tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>
  %2 = "jaxpr.add"(%arg0, %1) {jaxpr.ctx = {cur_abstract_mesh = #mesh1}} : (tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>, tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>
  return %2 : tensor<2xf32, {manual = {ManualAxisType = {reduced = {set = []}, unreduced = {set = []}, varying = {set = ["i"]}}}, mesh = #mesh1, spec = {PartitionSpec = [none]}}>
}
