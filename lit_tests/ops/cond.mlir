// cond: Calls one of several functions, branches[i]; operands (i, *args).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '1, 3.0' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.cond"(%{{.*}}, %{{.*}}) {branches = [@neg, @lambda]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
// HLO: stablehlo.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<i32>
// HLO: "stablehlo.case"(%{{.*}})
// HLO: stablehlo.negate %{{.*}} : tensor<f32>
// EXEC: result: f32[] = 9.0
func.func public @cond(%arg0: tensor<i32>, %arg1: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %1 = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %2 = "jaxpr.clamp"(%0, %arg0, %1) : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<i32>
  %3 = "jaxpr.cond"(%2, %arg1) {branches = [@neg, @lambda]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
func.func private @neg(%arg0: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.neg"(%arg0) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @lambda(%arg0: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%arg0, %arg0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
