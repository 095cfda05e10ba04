// iota_2x32_shape: The high and the low 32 bits of a 64-bit row-major counter of the given shape.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.iota_2x32_shape"() {shape = array<i64: 2, 2>} : () -> (tensor<2x2xui32>, tensor<2x2xui32>)
// HLO: stablehlo.iota dim = 0 : tensor<2x2xui64>
// HLO: stablehlo.iota dim = 1 : tensor<2x2xui64>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2x2xui64>
// EXEC: result[0]: u32[2,2] = {{\[\[}}0, 0],
// EXEC-NEXT: [0, 0]]
// EXEC: result[1]: u32[2,2] = {{\[\[}}0, 1],
// EXEC-NEXT: [2, 3]]
func.func public @iota_2x32_shape() -> (tensor<2x2xui32>, tensor<2x2xui32>) {
  %0:2 = "jaxpr.iota_2x32_shape"() {shape = array<i64: 2, 2>} : () -> (tensor<2x2xui32>, tensor<2x2xui32>)
  return %0#0, %0#1 : tensor<2x2xui32>, tensor<2x2xui32>
}
