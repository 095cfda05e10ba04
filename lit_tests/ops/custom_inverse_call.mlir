// custom_inverse_call: Calls a function that has its own inverses: the k-th computes the operands
// operands[k] from the results and the other operands, and log|det| of the function's derivative
// with respect to them.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.custom_inverse_call"(%{{.*}}) {call_jaxpr = @inverted_in_its_own_way, inverses = [@sqrt], log_dets = [@lambda], operands = [array<i64: 0>]} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 4.0]
func.func public @custom_inverse_call(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.custom_inverse_call"(%arg0) {call_jaxpr = @inverted_in_its_own_way, inverses = [@sqrt], log_dets = [@lambda], operands = [array<i64: 0>]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @inverted_in_its_own_way(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @sqrt(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sqrt"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %arg0) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.log"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}
