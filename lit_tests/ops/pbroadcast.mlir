// pbroadcast: One device's operand, on every device of the axes.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s

// JAX lowers it for GPUs only.

// CHECK: "jaxpr.pbroadcast"(%{{.*}}) {axis_name = "i", jaxpr.ctx = {cur_abstract_mesh = #mesh1}, source = 1 : i64} : (tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>
#mesh = {Mesh = {axis_names = ["i"], axis_types = [{AxisType = "Auto"}], devices = [{Device = "cpu:0"}, {Device = "cpu:1"}], shape = array<i64: 2>}}
#mesh1 = {AbstractMesh = {abstract_device = {AbstractDevice = {device_kind = "cpu", num_cores = none, platform = "cpu"}}, axis_names = ["i"], axis_sizes = array<i64: 2>, axis_types = [{AxisType = "Manual"}]}}
func.func public @pbroadcast(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.shard_map"(%arg0) {check_vma = false, in_specs = [{PartitionSpec = ["i"]}], jaxpr = @lambda, mesh = #mesh, newly_manual_axes = {set = ["i"]}, out_specs = [{PartitionSpec = ["i"]}]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @lambda(%arg0: tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}> {
  %0 = "jaxpr.pbroadcast"(%arg0) {axis_name = "i", jaxpr.ctx = {cur_abstract_mesh = #mesh1}, source = 1 : i64} : (tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>) -> tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>
  return %0 : tensor<2xf32, {mesh = #mesh1, spec = {PartitionSpec = [none]}}>
}
