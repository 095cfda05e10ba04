// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '1.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %s --entry=sine_jvp --args '1.0, 10.0' | FileCheck %s --check-prefix=RULE

// The JVP rule of sine calls sine itself: the rule names the same symbol again, so printing ends.

// CHECK: "jaxpr.custom_jvp_call_jaxpr"(%arg0) {call_jaxpr = @sine, jvp_jaxpr = @sine_jvp} : (tensor<f32>) -> tensor<f32>
// CHECK: func.func private @sine_jvp
// CHECK: "jaxpr.custom_jvp_call_jaxpr"(%arg0) {call_jaxpr = @sine, jvp_jaxpr = @sine_jvp} : (tensor<f32>) -> tensor<f32>
// HLO: stablehlo.sine
// HLO-NOT: stablehlo.cosine
// EXEC: result: f32[] = 0.84147{{[0-9]*}}
// RULE: result[0]: f32[] = 0.84147{{[0-9]*}}
// RULE-NEXT: result[1]: f32[] = 5.4030{{[0-9]*}}
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @sine, jvp_jaxpr = @sine_jvp} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @sine(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @sine_jvp(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @sine, jvp_jaxpr = @sine_jvp} : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.cos"(%x) : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.mul"(%t, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %2 : tensor<f32>, tensor<f32>
}
