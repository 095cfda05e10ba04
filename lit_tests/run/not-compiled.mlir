// A dialect or a call that XLA does not compile is an error, without a traceback.

// RUN: not jaxmlir-run %s --entry=dialect --args 1 2>&1 | FileCheck %s
// RUN: jaxmlir-opt --pass-pipeline='builtin.module(symbol-privatize{exclude=call},symbol-dce)' %s | not jaxmlir-run --args 1 2>&1 | FileCheck %s --check-prefix=CALL

// CHECK-NOT: Traceback
// CHECK: not-compiled.mlir:[[# @LINE + 4]]:8: error: 'arith.addf' op: expected a module of the jaxpr dialect or of StableHLO
// CALL-NOT: Traceback
// CALL: jaxmlir-run: @call cannot be run: NOT_FOUND: {{.*}}nosuch
func.func @dialect(%x: tensor<f32>) -> tensor<f32> {
  %0 = arith.addf %x, %x : tensor<f32>
  return %0 : tensor<f32>
}
func.func @call(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.custom_call @nosuch(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
