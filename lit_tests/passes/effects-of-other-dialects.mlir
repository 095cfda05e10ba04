// Ops of other dialects stay, even if their results are not used: they may have any effect.

// RUN: jaxmlir-opt --jaxpr-dce %s | FileCheck %s
// RUN: jaxmlir-opt -O2 %s | FileCheck %s

// CHECK-LABEL: func.func public @effects
// CHECK-NEXT:    stablehlo.custom_call @report
// CHECK-NEXT:    "test.effect"
// CHECK-NEXT:    call @has_effects
// CHECK-NEXT:    return
func.func public @effects(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.custom_call @report(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  "test.effect"(%x) : (tensor<f32>) -> ()
  %1 = func.call @has_effects(%x) : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}
func.func private @has_effects(%x: tensor<f32>) -> tensor<f32> {
  "test.effect"(%x) : (tensor<f32>) -> ()
  return %x : tensor<f32>
}
