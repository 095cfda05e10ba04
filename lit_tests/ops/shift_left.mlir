// shift_left: x << y; 0 if y is at least the width.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1, 3], [4, 32]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.shift_left"(%{{.*}}, %{{.*}}) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
// HLO: stablehlo.shift_left %{{.*}}, %{{.*}} : tensor<2xi32>
// EXEC: result: i32[2] = [16, 0]
func.func public @shift_left(%arg0: tensor<2xi32>, %arg1: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "jaxpr.shift_left"(%arg0, %arg1) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
