// The tangent of one custom_lin is the result of another custom_lin, which is replaced first.

// RUN: jaxmlir-opt --jaxpr-expand-custom-lin %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --args '2.0, 10.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      %[[T:.*]] = "jaxpr.jit"(%arg0, %arg1) {jaxpr = @bwd.transpose
// CHECK-NEXT: %[[U:.*]] = "jaxpr.jit"(%arg0, %[[T]]) {jaxpr = @bwd.transpose
// CHECK-NEXT: return %[[U]]

// EXEC: result: f32[] = 40.0
func.func public @f(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_lin"(%x, %t) {bwd = @bwd, in_zeros = array<i1: false>, num_res = 1 : i64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.custom_lin"(%x, %0) {bwd = @bwd, in_zeros = array<i1: false>, num_res = 1 : i64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @bwd(%x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%x, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
