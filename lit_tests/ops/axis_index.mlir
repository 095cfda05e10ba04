// axis_index: This device's index along mesh axes, a scalar integer.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.axis_index"() {axis_name = "i", jaxpr.ctx = {cur_abstract_mesh = #mesh1}, jaxpr.effects = [{NamedAxisEffect = "i"}]} : () -> tensor<i32, {mesh = #mesh1, spec = {PartitionSpec = []}}>
// HLO: stablehlo.partition_id : tensor<ui32>
// HLO: stablehlo.divide %{{.*}}, %{{.*}} : tensor<ui32>
// HLO: stablehlo.remainder %{{.*}}, %{{.*}} : tensor<ui32>
// EXEC: result: f32[4] = [0.0, 0.0, 3.0, 4.0]
#mesh = {Mesh = {axis_names = ["i"], axis_types = [{AxisType = "Auto"}], devices = [{Device = "cpu:0"}, {Device = "cpu:1"}], shape = array<i64: 2>}}
#mesh1 = {AbstractMesh = {abstract_device = {AbstractDevice = {device_kind = "cpu", num_cores = none, platform = "cpu"}}, axis_names = ["i"], axis_sizes = array<i64: 2>, axis_types = [{AxisType = "Manual"}]}}
func.func public @axis_index(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.shard_map"(%arg0) {check_vma = false, in_specs = [{PartitionSpec = ["i"]}], jaxpr = @lambda, mesh = #mesh, newly_manual_axes = {set = ["i"]}, out_specs = [{PartitionSpec = ["i"]}]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @lambda(%arg0: tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}> {
  %0 = "jaxpr.axis_index"() {axis_name = "i", jaxpr.ctx = {cur_abstract_mesh = #mesh1}, jaxpr.effects = [{NamedAxisEffect = "i"}]} : () -> tensor<i32, {mesh = #mesh1, spec = {PartitionSpec = []}}>
  %1 = "jaxpr.convert_element_type"(%0) {jaxpr.ctx = {cur_abstract_mesh = #mesh1}, new_dtype = f32} : (tensor<i32, {mesh = #mesh1, spec = {PartitionSpec = []}}>) -> tensor<f32, {mesh = #mesh1, spec = {PartitionSpec = []}}>
  %2 = "jaxpr.mul"(%arg0, %1) {jaxpr.ctx = {cur_abstract_mesh = #mesh1}} : (tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>, tensor<f32, {mesh = #mesh1, spec = {PartitionSpec = []}}>) -> tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>
  return %2 : tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>
}
