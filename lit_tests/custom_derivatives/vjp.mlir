// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '2.0, 5.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %s --entry=bwd --args '2.0, 5.0, 1.0' | FileCheck %s --check-prefix=BWD

// The forward rule calls the function itself. The residuals are operands of the rule, so
// `jaxpr.input_fwds` lists these operands and the rule does not return them.

// CHECK: "jaxpr.custom_vjp_call_jaxpr"(%arg0, %arg1) {bwd_jaxpr = @bwd, call_jaxpr = @product, fwd_jaxpr = @fwd} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: func.func private @fwd
// CHECK-SAME: jaxpr.input_fwds = array<i64: 0, 1>, jaxpr.num_res = 2 : i64
// CHECK-NEXT: "jaxpr.custom_vjp_call_jaxpr"(%arg0, %arg1) {bwd_jaxpr = @bwd, call_jaxpr = @product, fwd_jaxpr = @fwd}
// HLO: stablehlo.multiply
// HLO-NOT: stablehlo.multiply
// EXEC: result: f32[] = 10.0
// BWD: result[0]: f32[] = 5.0
// BWD-NEXT: result[1]: f32[] = 3.0
func.func public @f(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x, %y) {call_jaxpr = @product, fwd_jaxpr = @fwd, bwd_jaxpr = @bwd} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @product(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @fwd(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> attributes {jaxpr.input_fwds = array<i64: 0, 1>, jaxpr.num_res = 2 : i64} {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x, %y) {call_jaxpr = @product, fwd_jaxpr = @fwd, bwd_jaxpr = @bwd} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @bwd(%x: tensor<f32>, %y: tensor<f32>, %ct: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %three = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.mul"(%y, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%three, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
