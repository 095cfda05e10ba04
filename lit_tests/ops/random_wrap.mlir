// random_wrap: Raw key data (unsigned integers) as keys.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1, 2]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.random_wrap"(%{{.*}}) {impl = {PRNGImpl = "threefry2x32"}} : (tensor<2xui32>) -> tensor<!jaxpr.key<"fry">>
// HLO: return
// EXEC: result: key<fry>[] = [1, 2]
func.func public @random_wrap(%arg0: tensor<2xui32>) -> tensor<!jaxpr.key<"fry">> {
  %0 = "jaxpr.random_wrap"(%arg0) {impl = {PRNGImpl = "threefry2x32"}} : (tensor<2xui32>) -> tensor<!jaxpr.key<"fry">>
  return %0 : tensor<!jaxpr.key<"fry">>
}
