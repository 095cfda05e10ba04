// custom_jvp_call_jaxpr: Calls a function whose JVP is jvp_jaxpr: (*primals, *tangents) ->
// (*primals, *tangents).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.custom_jvp_call_jaxpr"(%{{.*}}) {call_jaxpr = @doubled_jvp, jvp_jaxpr = @tripled_tangent} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [2.0, 4.0]
func.func public @custom_jvp_call_jaxpr(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%arg0) {call_jaxpr = @doubled_jvp, jvp_jaxpr = @tripled_tangent} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @doubled_jvp(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %arg0) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @tripled_tangent(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %arg0) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.constant"() {value = dense<3.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %3 = "jaxpr.mul"(%2, %arg1) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  return %1, %3 : tensor<2xf32>, tensor<2xf32>
}
