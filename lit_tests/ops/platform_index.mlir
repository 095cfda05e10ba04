// platform_index: The index of the group of platforms that the program is compiled for, a scalar
// integer; a `cond` over implementations takes it.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '3.0' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.platform_index"() {platforms = {{\[\[}}"cpu"], ["tpu"]]} : () -> tensor<i32>
// HLO: "stablehlo.case"(%{{.*}})
// HLO: "stablehlo.case"(%{{.*}})
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
// EXEC: result: f32[] = 4.0
func.func public @platform_index(%arg0: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.platform_index"() {platforms = [["cpu"], ["tpu"]]} : () -> tensor<i32>
  %1 = "jaxpr.cond"(%0, %arg0) {branches = [@lambda, @lambda_0], branches_platforms = [["cpu"], ["tpu"]]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @lambda(%arg0: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.add"(%arg0, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @lambda_0(%arg0: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.add"(%arg0, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
