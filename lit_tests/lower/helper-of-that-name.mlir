// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// JAX's rule puts the sum into a helper @cumsum. The helper is renamed, because the program has a @cumsum.

// CHECK: func.func public @cumsum(
// CHECK: call @cumsum_0(
// CHECK: func.func private @cumsum_0(
// EXEC: result: f32[2] = [1.0, 3.0]
func.func public @cumsum(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.cumsum"(%x) {axis = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
