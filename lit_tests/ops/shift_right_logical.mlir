// shift_right_logical: x >> y, filled with zeros.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2147483648, 16], [31, 2]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.shift_right_logical"(%{{.*}}, %{{.*}}) : (tensor<2xui32>, tensor<2xui32>) -> tensor<2xui32>
// HLO: stablehlo.shift_right_logical %{{.*}}, %{{.*}} : tensor<2xui32>
// EXEC: result: u32[2] = [1, 4]
func.func public @shift_right_logical(%arg0: tensor<2xui32>, %arg1: tensor<2xui32>) -> tensor<2xui32> {
  %0 = "jaxpr.shift_right_logical"(%arg0, %arg1) : (tensor<2xui32>, tensor<2xui32>) -> tensor<2xui32>
  return %0 : tensor<2xui32>
}
