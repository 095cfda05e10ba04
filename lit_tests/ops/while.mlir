// while: Loop while a condition holds: (*condition consts, *body consts, *carry) -> carry.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '1.0, 3.0' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.while"(%{{.*}}, %{{.*}}) {body_jaxpr = @lambda_0, body_nconsts = 1 : i64, cond_jaxpr = @lambda} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// HLO: stablehlo.while
// EXEC: result: f32[] = 243.0
func.func public @while(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.while"(%arg1, %arg0) {body_jaxpr = @lambda_0, body_nconsts = 1 : i64, cond_jaxpr = @lambda} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @lambda(%arg0: tensor<f32>) -> tensor<i1> {
  %0 = "jaxpr.constant"() {value = dense<1.000000e+02> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.lt"(%arg0, %0) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func private @lambda_0(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%arg1, %arg0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
