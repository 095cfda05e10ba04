// rng_uniform: Uniform samples in [a, b) from XLA's stateful generator.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO

// XLA's generator is stateful.

// CHECK: "jaxpr.rng_uniform"(%{{.*}}, %{{.*}}) {shape = array<i64: 3>} : (tensor<f32>, tensor<f32>) -> tensor<3xf32>
// HLO: stablehlo.rng %{{.*}}, %{{.*}}, %{{.*}}, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
func.func public @rng_uniform(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<3xf32> {
  %0 = "jaxpr.rng_uniform"(%arg0, %arg1) {shape = array<i64: 3>} : (tensor<f32>, tensor<f32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
