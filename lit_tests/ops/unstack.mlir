// unstack: Splits the operand along an axis, which disappears.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.unstack"(%{{.*}}) {axis = 0 : i64} : (tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// HLO: stablehlo.slice %{{.*}} [0:1, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>
// HLO: stablehlo.slice %{{.*}} [1:2, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>
// EXEC: result[0]: f32[2] = [1.0, 2.0]
// EXEC: result[1]: f32[2] = [3.0, 4.0]
func.func public @unstack(%arg0: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0:2 = "jaxpr.unstack"(%arg0) {axis = 0 : i64} : (tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>
}
