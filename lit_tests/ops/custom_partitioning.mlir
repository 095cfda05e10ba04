// custom_partitioning: Calls a function that has its own partitioning rule.

// RUN: jaxmlir-opt --verify=none %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER

// It holds a Python object, which text cannot: such an op runs only in its own process.

// CHECK: "jaxpr.custom_partitioning"(%{{.*}}) {call = @partitioned_in_its_own_way, in_tree = {pytree = ["*"]}, out_tree = {pytree = "*"}, partition = {handle = "h0"}, sharding_rule = {handle = "h1"}} : (tensor<2xf32>) -> tensor<2xf32>
// OTHER: stands for a Python object of another process
func.func public @custom_partitioning(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.custom_partitioning"(%arg0) {call = @partitioned_in_its_own_way, in_tree = {pytree = ["*"]}, out_tree = {pytree = "*"}, partition = {handle = "h0"}, sharding_rule = {handle = "h1"}} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @partitioned_in_its_own_way(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
