// random_bits: Uniform random bits, an unsigned integer array for each key.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0, 0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.random_bits"(%{{.*}}) {bit_width = 32 : i64, shape = array<i64: 3>} : (tensor<!jaxpr.key<"fry">>) -> tensor<3xui32>
// HLO: stablehlo.slice %{{.*}} [0:1] : (tensor<2xui32>) -> tensor<1xui32>
// HLO: stablehlo.slice %{{.*}} [1:2] : (tensor<2xui32>) -> tensor<1xui32>
// HLO: stablehlo.iota dim = 0 : tensor<3xui64>
// EXEC: result: u32[3] = [4070199207, 4202968722, 1427181096]
func.func public @random_bits(%arg0: tensor<!jaxpr.key<"fry">>) -> tensor<3xui32> {
  %0 = "jaxpr.random_bits"(%arg0) {bit_width = 32 : i64, shape = array<i64: 3>} : (tensor<!jaxpr.key<"fry">>) -> tensor<3xui32>
  return %0 : tensor<3xui32>
}
