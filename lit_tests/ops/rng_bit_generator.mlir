// rng_bit_generator: XLA's generator: the new state and random bits.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1, 2, 3, 4]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.rng_bit_generator"(%{{.*}}) {algorithm = {RandomAlgorithm = "RNG_DEFAULT"}, dtype = ui32, shape = array<i64: 3>} : (tensor<4xui32>) -> (tensor<4xui32>, tensor<3xui32>)
// HLO: stablehlo.bitcast_convert %{{.*}} : (tensor<2x2xui32>) -> tensor<2xui64>
// HLO: stablehlo.bitcast_convert %{{.*}} : (tensor<2xui64>) -> tensor<2x2xui32>
// EXEC: result[0]: u32[4] = [1, 2, 4, 4]
// EXEC: result[1]: u32[3] = [512747620, 1298009047, 1267190206]
func.func public @rng_bit_generator(%arg0: tensor<4xui32>) -> (tensor<4xui32>, tensor<3xui32>) {
  %0:2 = "jaxpr.rng_bit_generator"(%arg0) {algorithm = {RandomAlgorithm = "RNG_DEFAULT"}, dtype = ui32, shape = array<i64: 3>} : (tensor<4xui32>) -> (tensor<4xui32>, tensor<3xui32>)
  return %0#0, %0#1 : tensor<4xui32>, tensor<3xui32>
}
