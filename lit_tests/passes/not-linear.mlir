// If a JAX rule refuses an op, the message contains the whole reason, without a traceback.

// RUN: not jaxmlir-opt %s --jaxpr-transpose --split-input-file 2>&1 | FileCheck %s
// RUN: not jaxmlir-opt %s --jaxpr-jvp=func=scalar --split-input-file 2>&1 | FileCheck %s --check-prefix=TYPE

// CHECK-NOT: Traceback
// CHECK: not-linear.mlir:[[# @LINE + 2]]:8: error: 'jaxpr.mul' op cannot be transposed: it is not linear in the operands that are to have cotangents
func.func @square(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// CHECK-NOT: Traceback
// CHECK: not-linear.mlir:[[# @LINE + 3]]:8: error: 'jaxpr.sin' op cannot be transposed: NotImplementedError: Transpose rule
// CHECK-NEXT: %0 = "jaxpr.sin"
func.func @sine(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// CHECK-NOT: Traceback
// CHECK: not-linear.mlir:[[# @LINE + 1]]:1: error: @residuals attribute 'jaxpr.num_res': expected an integer from 0 to 1, got 2 : i64
func.func @residuals(%x: tensor<f32>) -> tensor<f32> attributes {jaxpr.num_res = 2 : i64} {
  return %x : tensor<f32>
}

// -----

// CHECK-NOT: Traceback
// CHECK: not-linear.mlir:[[# @LINE + 1]]:1: error: @text attribute 'jaxpr.num_res': expected an integer from 0 to 1, got "1"
func.func @text(%x: tensor<f32>) -> tensor<f32> attributes {jaxpr.num_res = "1"} {
  return %x : tensor<f32>
}

// -----

// TYPE: not-linear.mlir:[[# @LINE + 1]]:1: error: 'func.func' op @scalar: f32 is not a type of the jaxpr dialect; the type of an array is one like tensor<f32>
func.func @scalar(%x: f32) -> f32 {
  return %x : f32
}
