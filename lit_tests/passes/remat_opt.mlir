// The forward rule of a custom_vjp function that may be recomputed: f(x) = 2x. The rule returns 3x, which
// shows that it was run, and stores x + 1. If only the value is used, the function is called instead.

// RUN: jaxmlir-opt --jaxpr-dce %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --args 1.0 | FileCheck %s --check-prefix=VALUE
// RUN: jaxmlir-run %t --entry=both --args 1.0 | FileCheck %s --check-prefix=BOTH

// CHECK:      func.func public @value(%[[X:.*]]: tensor<f32>)
// CHECK-NEXT:   "jaxpr.jit"(%[[X]]) {jaxpr = @f, name = "f"} : (tensor<f32>) -> tensor<f32>
// CHECK:      "jaxpr.remat_opt"(%{{.*}}) {fun_jaxpr = @f, fwd_jaxpr = @f_fwd, num_consts = 1 : i64, num_res = 1 : i64}
// VALUE: result: f32[] = 2.0
// BOTH: result[0]: f32[] = 2.0
// BOTH-NEXT: result[1]: f32[] = 3.0
func.func public @value(%x: tensor<f32>) -> tensor<f32> {
  %three = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %0:2 = "jaxpr.remat_opt"(%three, %x) {fun_jaxpr = @f, fwd_jaxpr = @f_fwd, num_consts = 1 : i64, num_res = 1 : i64} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#1 : tensor<f32>
}
func.func private @both(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %three = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %0:2 = "jaxpr.remat_opt"(%three, %x) {fun_jaxpr = @f, fwd_jaxpr = @f_fwd, num_consts = 1 : i64, num_res = 1 : i64} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @f_fwd(%three: tensor<f32>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %one = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.mul"(%three, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%x, %one) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1, %0 : tensor<f32>, tensor<f32>
}
