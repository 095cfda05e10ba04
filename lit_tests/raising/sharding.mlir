// A manual computation becomes a shard_map, and its collectives name the axes of the mesh. A gather
// of Shardy's only moves values.
// RUN: jaxmlir-opt %s --pass-pipeline='builtin.module(jaxpr-raise-stablehlo)' | FileCheck %s
// RUN: jaxmlir-translate --stablehlo-to-jaxpr %s | jaxmlir-run --args '[0,1,2,3,4,5,6,7]' | FileCheck --check-prefix=EXEC %s

// CHECK: func.func public @main
// CHECK: "jaxpr.sharding_constraint"(%arg0) {{.*}}spec = {PartitionSpec = ["a"]}
// CHECK: "jaxpr.shard_map"{{.*}}in_specs = [{PartitionSpec = ["a"]}]
// CHECK: "jaxpr.sharding_constraint"({{.*}}spec = {PartitionSpec = [none]}
// CHECK: "jaxpr.psum"{{.*}}axes = ["a"]
// EXEC: f32[8] = [12.0, 16.0, 12.0, 16.0, 12.0, 16.0, 12.0, 16.0]
sdy.mesh @mesh = <["a"=4]>
func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.sharding_constraint %x <@mesh, [{"a"}]> : tensor<8xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"a"}]>]
      out_shardings=[<@mesh, [{"a"}]>] manual_axes={"a"} (%y: tensor<2xf32>) {
    %2 = "stablehlo.all_reduce"(%y) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %3 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %2 : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %4 = sdy.all_gather [{"a"}] %1 out_sharding=<@mesh, [{}]> : tensor<8xf32>
  return %4 : tensor<8xf32>
}
