// If a function has its own inverse, this inverse is called, whatever ops the function has.

// RUN: jaxmlir-opt --jaxpr-inverse=log-det=true %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '5.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
// CHECK-NEXT:   %[[X:.*]] = "jaxpr.jit"(%[[Y]]) {jaxpr = @less_one}
// CHECK-NEXT:   %[[COST:.*]] = "jaxpr.jit"(%[[X]], %[[Y]]) {jaxpr = @zero}
// CHECK-NEXT:   %[[DET:.*]] = "jaxpr.neg"(%[[COST]])
// CHECK-NEXT:   return %[[X]], %[[DET]]

// EXEC: result[0]: f32[] = 4.0
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_inverse_call"(%x) {call_jaxpr = @above, inverses = [@less_one], log_dets = [@zero], operands = [array<i64: 0>]} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @above(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.add"(%x, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.ceil"(%1) : (tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
func.func private @less_one(%y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.sub"(%y, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @zero(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  return %0 : tensor<f32>
}
