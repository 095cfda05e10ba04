// custom_lin: The unknown linear map from tangents to tangents whose transpose is bwd: (*residuals,
// *cotangents) -> (*cotangents); operands (*residuals, *nonzero tangents).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s

// Nobody knows the linear map itself, only its transpose: it cannot be lowered.

// CHECK: "jaxpr.custom_lin"(%{{.*}}, %{{.*}}) {bwd = @lambda, in_zeros = array<i1: false>, num_res = 1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
func.func public @custom_lin(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %arg0) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.custom_lin"(%arg0, %arg1) {bwd = @lambda, in_zeros = array<i1: false>, num_res = 1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg1, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
