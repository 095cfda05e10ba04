// A function is public unless the text says otherwise.

// RUN: jaxmlir-opt %s --jaxpr-dedupe-functions -O2 | FileCheck %s

// CHECK: func.func @f
// CHECK: func.func @g
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @g(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
