// custom_vjp_call_jaxpr: Calls a function whose VJP is fwd_jaxpr: (*primals) -> (*residuals,
// *results), then bwd_jaxpr: (*residuals, *cotangents) -> (*cotangents).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.custom_vjp_call_jaxpr"(%{{.*}}) {bwd_jaxpr = @lambda_0, call_jaxpr = @doubled_vjp, fwd_jaxpr = @lambda} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [2.0, 4.0]
func.func public @custom_vjp_call_jaxpr(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%arg0) {bwd_jaxpr = @lambda_0, call_jaxpr = @doubled_vjp, fwd_jaxpr = @lambda} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @doubled_vjp(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %arg0) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>) -> tensor<2xf32> attributes {jaxpr.input_fwds = array<i64: 0>, jaxpr.num_res = 1 : i64} {
  %0 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %arg0) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @lambda_0(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg1, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
