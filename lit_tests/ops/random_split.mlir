// random_split: New independent keys from each key: the shape is appended.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0, 0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.random_split"(%{{.*}}) {shape = array<i64: 2>} : (tensor<!jaxpr.key<"fry">>) -> tensor<2x!jaxpr.key<"fry">>
// HLO: stablehlo.slice %{{.*}} [0:1] : (tensor<2xui32>) -> tensor<1xui32>
// HLO: stablehlo.slice %{{.*}} [1:2] : (tensor<2xui32>) -> tensor<1xui32>
// HLO: stablehlo.iota dim = 0 : tensor<2xui64>
// EXEC: result: key<fry>[2] = {{\[\[}}1797259609, 2579123966],
// EXEC-NEXT: [928981903, 3453687069]]
func.func public @random_split(%arg0: tensor<!jaxpr.key<"fry">>) -> tensor<2x!jaxpr.key<"fry">> {
  %0 = "jaxpr.random_split"(%arg0) {shape = array<i64: 2>} : (tensor<!jaxpr.key<"fry">>) -> tensor<2x!jaxpr.key<"fry">>
  return %0 : tensor<2x!jaxpr.key<"fry">>
}
