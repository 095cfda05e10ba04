// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s
// RUN: jaxmlir-run %s --args '0, 4.0' | FileCheck %s --check-prefix=FIRST
// RUN: jaxmlir-run %s --args '1, 4.0' | FileCheck %s --check-prefix=SECOND
// RUN: jaxmlir-run %s --args '2, 4.0' | FileCheck %s --check-prefix=THIRD

// Branches become regions, in the same order.

// CHECK-LABEL: func.func public @f
// CHECK: "stablehlo.case"
// CHECK: stablehlo.negate
// CHECK: stablehlo.sqrt
// CHECK: stablehlo.multiply
// FIRST: result: f32[] = -4.0
// SECOND: result: f32[] = 2.0
// THIRD: result: f32[] = 16.0
func.func public @f(%i: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.cond"(%i, %x) {branches = [@neg, @sqrt, @square]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @neg(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.neg"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @sqrt(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sqrt"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @square(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
