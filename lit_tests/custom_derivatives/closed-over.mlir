// RUN: jaxmlir-opt %s --jaxpr-grad='func=loss argnums=1' | FileCheck %s
// RUN: jaxmlir-opt %s --jaxpr-grad='func=loss argnums=1' | jaxmlir-run - --entry=loss.grad --args '2.0, 3.0' | FileCheck %s --check-prefix=EXEC
// RUN: not jaxmlir-opt %s --jaxpr-grad='func=loss argnums=0' 2>&1 | FileCheck %s --check-prefix=ERROR

// The rules of `scaled` close over %x, its first operand. The forward rule passes %x on to the
// backward rule, which returns no cotangent for %x. The gradient with respect to y is x cos(x y).

// CHECK-LABEL: func.func private @loss.grad(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32>
// CHECK:         %[[ONE:.*]] = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK:         %[[CT:.*]] = "jaxpr.jit"(%arg1, %arg0, %[[ONE]]) {{.*}}@scaled_bwd
// CHECK:         return %[[CT]]
// EXEC: result: f32[] = 1.92034{{[0-9]*}}
// ERROR: closed-over.mlir:[[# @LINE + 2]]:8: error: 'jaxpr.custom_vjp_call_jaxpr' op: the custom derivative rule @scaled_fwd cannot take a tangent of argument 0 of the function
func.func public @loss(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x, %y) {call_jaxpr = @scaled, fwd_jaxpr = @scaled_fwd, bwd_jaxpr = @scaled_bwd} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @scaled(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.sin"(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @scaled_fwd(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> attributes {jaxpr.in_zeros = array<i1: true, false>, jaxpr.input_fwds = array<i64: 1, 0>, jaxpr.num_res = 2 : i64} {
  %0 = "jaxpr.mul"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.sin"(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @scaled_bwd(%y: tensor<f32>, %x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> attributes {jaxpr.out_zeros = array<i1: true, false>} {
  %0 = "jaxpr.mul"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.cos"(%0) : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.mul"(%x, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = "jaxpr.mul"(%ct, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
