// random_unwrap: The raw data of keys.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0, 7]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.random_unwrap"(%{{.*}}) : (tensor<!jaxpr.key<"fry">>) -> tensor<2xui32>
// HLO: return
// EXEC: result: u32[2] = [0, 7]
func.func public @random_unwrap(%arg0: tensor<!jaxpr.key<"fry">>) -> tensor<2xui32> {
  %0 = "jaxpr.random_unwrap"(%arg0) : (tensor<!jaxpr.key<"fry">>) -> tensor<2xui32>
  return %0 : tensor<2xui32>
}
