// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-run %s --args '2.0' | FileCheck %s --check-prefix=EXEC

// If a rule cannot be traced, the op keeps the reason, and the program still runs.

// CHECK: "jaxpr.custom_jvp_call_jaxpr"(%arg0) {call_jaxpr = @double, jvp_error = "ValueError: no"}
// EXEC: result: f32[] = 4.0
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @double, jvp_error = "ValueError: no"} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @double(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
