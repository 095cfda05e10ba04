// random_seed: Keys made from integer seeds.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '7' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.random_seed"(%{{.*}}) {impl = {PRNGImpl = "threefry2x32"}} : (tensor<i32>) -> tensor<!jaxpr.key<"fry">>
// HLO: stablehlo.shift_right_logical %{{.*}}, %{{.*}} : tensor<i32>
// HLO: stablehlo.and %{{.*}}, %{{.*}} : tensor<i32>
// HLO: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>
// EXEC: result: key<fry>[] = [0, 7]
func.func public @random_seed(%arg0: tensor<i32>) -> tensor<!jaxpr.key<"fry">> {
  %0 = "jaxpr.random_seed"(%arg0) {impl = {PRNGImpl = "threefry2x32"}} : (tensor<i32>) -> tensor<!jaxpr.key<"fry">>
  return %0 : tensor<!jaxpr.key<"fry">>
}
