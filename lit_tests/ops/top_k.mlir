// top_k: The k largest elements along an axis, in falling order, and their indices.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[3.0, 1.0, 4.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.top_k"(%{{.*}}) {axis = 0 : i64, k = 2 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
// HLO: return
// EXEC: result[0]: f32[2] = [4.0, 3.0]
// EXEC: result[1]: i32[2] = [2, 0]
func.func public @top_k(%arg0: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = "jaxpr.top_k"(%arg0) {axis = 0 : i64, k = 2 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
