// Ops of other dialects stay, even if their results are not used: they may have any effect.

// RUN: jaxmlir-opt --jaxpr-dce %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-fold-unit-dims --jaxpr-licm --jaxpr-remat=calls=inf %s | FileCheck %s
// RUN: jaxmlir-opt -O2 %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-fuse-scans %s | FileCheck %s --check-prefix=IN-ORDER

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

// Nor do calls and loops of functions that have them go.
// CHECK-LABEL: func.func public @in_callees
// CHECK-NEXT:    "{{jaxpr.jit|test.effect}}"
// CHECK-NEXT:    "jaxpr.scan"
// CHECK-NEXT:    return
func.func public @in_callees(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.jit"(%x) {jaxpr = @has_effects, name = "has_effects"} : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.scan"(%x) {jaxpr = @has_effects, length = 2 : i64, num_carry = 1 : i64} : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}

// Nor are they moved out of a loop.
// CHECK-LABEL: func.func public @in_a_loop
// CHECK-NEXT:    "test.effect"
// CHECK-NOT:     "test.draw"
// CHECK:         return
// CHECK:         "test.draw"
func.func public @in_a_loop(%w: tensor<8x8xf32>, %x: tensor<8x1xf32>) -> tensor<8x1xf32> {
  "test.effect"(%x) : (tensor<8x1xf32>) -> ()
  %0 = "jaxpr.neg"(%x) : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %1 = "jaxpr.scan"(%w, %0) {jaxpr = @step, length = 3 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  return %1 : tensor<8x1xf32>
}
func.func private @step(%w: tensor<8x8xf32>, %v: tensor<8x1xf32>) -> tensor<8x1xf32> {
  %0 = "test.draw"(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = "jaxpr.dot_general"(%0, %0) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = "jaxpr.dot_general"(%1, %v) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  return %2 : tensor<8x1xf32>
}

// Nor does a loop lose them that stores less for another one.
// CHECK-LABEL: func.func private @forward
// CHECK:         "test.effect"
func.func public @two_loops(%x: tensor<6400xf32>) -> tensor<6400xf32> {
  %0:3 = "jaxpr.scan"(%x) {jaxpr = @forward, length = 30 : i64, num_carry = 1 : i64} : (tensor<6400xf32>) -> (tensor<6400xf32>, tensor<30x6400xf32>, tensor<30x6400xf32>)
  %1 = "jaxpr.scan"(%0#0, %0#1, %0#2) {jaxpr = @backward, length = 30 : i64, num_carry = 1 : i64, reverse = true} : (tensor<6400xf32>, tensor<30x6400xf32>, tensor<30x6400xf32>) -> tensor<6400xf32>
  return %1 : tensor<6400xf32>
}
func.func private @forward(%x: tensor<6400xf32>) -> (tensor<6400xf32>, tensor<6400xf32>, tensor<6400xf32>) {
  "test.effect"(%x) : (tensor<6400xf32>) -> ()
  %0 = "jaxpr.neg"(%x) : (tensor<6400xf32>) -> tensor<6400xf32>
  %1 = "jaxpr.sub"(%0, %x) : (tensor<6400xf32>, tensor<6400xf32>) -> tensor<6400xf32>
  %2 = "jaxpr.mul"(%1, %x) : (tensor<6400xf32>, tensor<6400xf32>) -> tensor<6400xf32>
  return %2, %1, %x : tensor<6400xf32>, tensor<6400xf32>, tensor<6400xf32>
}
func.func private @backward(%ct: tensor<6400xf32>, %1: tensor<6400xf32>, %x: tensor<6400xf32>) -> tensor<6400xf32> {
  %2 = "jaxpr.mul"(%1, %ct) : (tensor<6400xf32>, tensor<6400xf32>) -> tensor<6400xf32>
  %3 = "jaxpr.mul"(%2, %x) : (tensor<6400xf32>, tensor<6400xf32>) -> tensor<6400xf32>
  return %3 : tensor<6400xf32>
}

// Nor are calls of functions that have them moved past each other, where loops become one.
// IN-ORDER-LABEL: func.func public @loops
// IN-ORDER:         "jaxpr.jit"(%0)
// IN-ORDER:         "jaxpr.jit"(%arg0)
func.func public @loops(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.scan"(%x) {jaxpr = @sine, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.jit"(%0) {jaxpr = @has_effects, name = "has_effects"} : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.jit"(%x) {jaxpr = @has_effects, name = "has_effects"} : (tensor<f32>) -> tensor<f32>
  %3 = "jaxpr.scan"(%y) {jaxpr = @sine, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>) -> tensor<f32>
  return %0, %3 : tensor<f32>, tensor<f32>
}
func.func private @sine(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
