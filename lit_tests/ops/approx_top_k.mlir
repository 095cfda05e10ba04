// approx_top_k: The k largest (or smallest) elements along a dimension and their indices, with at
// least the expected recall.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[3.0, 1.0, 4.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.approx_top_k"(%{{.*}}) {is_max_k = true, k = 2 : i64, recall_target = 0.94999999999999996 : f64, reduction_dimension = -1 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
// HLO: stablehlo.custom_call @ApproxTopK(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// EXEC: result[0]: f32[2] = [4.0, 3.0]
// EXEC: result[1]: i32[2] = [2, 0]
func.func public @approx_top_k(%arg0: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = "jaxpr.approx_top_k"(%arg0) {is_max_k = true, k = 2 : i64, recall_target = 0.94999999999999996 : f64, reduction_dimension = -1 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
