// sharding_constraint: The operand, constrained to a sharding.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.sharding_constraint"(%{{.*}}) {context_mesh = #mesh, sharding = {NamedSharding = {memory_kind = "device", mesh = #mesh1, spec = {PartitionSpec = ["i"]}}}, unconstrained_dims = {set = []}} : (tensor<4xf32>) -> tensor<4xf32>
// HLO: sdy.sharding_constraint %{{.*}} <@mesh, [{"i"}]>
// EXEC: result: f32[4] = [1.0, 2.0, 3.0, 4.0]
#mesh = {Mesh = {axis_names = [], axis_types = [], devices = [none], shape = []}}
#mesh1 = {Mesh = {axis_names = ["i"], axis_types = [{AxisType = "Auto"}], devices = [{Device = "cpu:0"}, {Device = "cpu:1"}], shape = array<i64: 2>}}
func.func public @sharding_constraint(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.sharding_constraint"(%arg0) {context_mesh = #mesh, sharding = {NamedSharding = {memory_kind = "device", mesh = #mesh1, spec = {PartitionSpec = ["i"]}}}, unconstrained_dims = {set = []}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
