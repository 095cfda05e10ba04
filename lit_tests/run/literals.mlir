// RUN: jaxmlir-run %s --args '1.5, [1,2,3], 2' --platform cpu | FileCheck %s
// RUN: jaxmlir-run --args='1.5, [1,2,3], 2' < %s | FileCheck %s

// RUN: jaxmlir-run %s --args '-inf, [nan,inf,2], true' | FileCheck %s --check-prefix=NAMED

// CHECK:      result[0]: f32[3] = [1.5, 3.0, 4.5]
// CHECK-NEXT: result[1]: i32[] = 3
// NAMED:      result[0]: f32[3] = [nan, -inf, -inf]
// NAMED-NEXT: result[1]: i32[] = 2
func.func public @f(%x: tensor<f32>, %y: tensor<3xf32>, %n: tensor<i32>) -> (tensor<3xf32>, tensor<i32>) {
  %b = "jaxpr.broadcast_in_dim"(%x) {broadcast_dimensions = array<i64>, shape = array<i64: 3>} : (tensor<f32>) -> tensor<3xf32>
  %0 = "jaxpr.mul"(%b, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %one = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %1 = "jaxpr.add"(%n, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %0, %1 : tensor<3xf32>, tensor<i32>
}
