// split: Splits the operand along an axis into pieces of the given sizes.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.split"(%{{.*}}) {axis = 0 : i64, sizes = array<i64: 1, 2>} : (tensor<3xf32>) -> (tensor<1xf32>, tensor<2xf32>)
// HLO: stablehlo.slice %{{.*}} [0:1] : (tensor<3xf32>) -> tensor<1xf32>
// HLO: stablehlo.slice %{{.*}} [1:3] : (tensor<3xf32>) -> tensor<2xf32>
// EXEC: result[0]: f32[1] = [1.0]
// EXEC: result[1]: f32[2] = [2.0, 3.0]
func.func public @split(%arg0: tensor<3xf32>) -> (tensor<1xf32>, tensor<2xf32>) {
  %0:2 = "jaxpr.split"(%arg0) {axis = 0 : i64, sizes = array<i64: 1, 2>} : (tensor<3xf32>) -> (tensor<1xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<1xf32>, tensor<2xf32>
}
