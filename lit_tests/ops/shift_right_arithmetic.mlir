// shift_right_arithmetic: x >> y, filled with the sign bit.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-16, 16], [2, 2]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.shift_right_arithmetic"(%{{.*}}, %{{.*}}) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
// HLO: stablehlo.shift_right_arithmetic %{{.*}}, %{{.*}} : tensor<2xi32>
// EXEC: result: i32[2] = [-4, 4]
func.func public @shift_right_arithmetic(%arg0: tensor<2xi32>, %arg1: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "jaxpr.shift_right_arithmetic"(%arg0, %arg1) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
