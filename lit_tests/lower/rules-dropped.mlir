// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s
// RUN: jaxmlir-run %s --args '3.0' | FileCheck %s --check-prefix=EXEC

// Lowering drops derivative rules completely, also inside a loop body.

// CHECK-LABEL: func.func public @f
// CHECK: stablehlo.while
// CHECK: stablehlo.add
// CHECK-NOT: rule
// CHECK-NOT: stablehlo.cosine
// CHECK-NOT: jaxpr.
// EXEC: result: f32[] = 12.0
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.scan"(%x) {jaxpr = @body, length = 2 : i64, num_carry = 1 : i64} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @body(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @double, jvp_jaxpr = @rule} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @double(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @rule(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.cos"(%t) : (tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
