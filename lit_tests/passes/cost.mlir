// The cost of a function by source line: a table on stderr. The module is not changed.
//
//   f(a, b) = tanh(a b), then ten times h -> h h

// RUN: jaxmlir-opt --jaxpr-cost %s 2>&1 >/dev/null | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-cost='top=1' %s 2>&1 >/dev/null | FileCheck %s --check-prefix=TOP
// RUN: jaxmlir-opt --jaxpr-cost %s 2>/dev/null | FileCheck %s --check-prefix=MODULE

// The product of 8x16 and 16x4 matrices: 2 * 8 * 16 * 4 operations on 4 * (128 + 64 + 32) bytes.
// CHECK:      flops transcend. bytes flops/byte line
// CHECK-NEXT: 1024 0 896 1.14 {{.*}}cost.mlir:[[# @LINE + 11]] %0 = "jaxpr.dot_general"
// CHECK-NEXT: 320 0 3840 0.08 {{.*}}cost.mlir:[[# @LINE + 16]] %0 = "jaxpr.mul"
// CHECK-NEXT: 0 32 256 0.00 {{.*}}cost.mlir:[[# @LINE + 10]] %1 = "jaxpr.tanh"
// CHECK-NEXT: 1344 32 4992 0.27 total

// TOP:      1024
// TOP-NEXT: total

// MODULE: func.func public @f

func.func public @f(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = "jaxpr.dot_general"(%a, %b) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]]} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = "jaxpr.tanh"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = "jaxpr.scan"(%1) {jaxpr = @square, length = 10 : i64, num_carry = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
func.func private @square(%h: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = "jaxpr.mul"(%h, %h) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
