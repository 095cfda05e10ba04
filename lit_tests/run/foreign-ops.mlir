// RUN: not jaxmlir-run %s --entry=foreign --args 1 2>&1 | FileCheck %s

// CHECK-NOT: Traceback
// CHECK: foreign-ops.mlir:[[# @LINE + 2]]:8: error: 'foo.bar' op: expected a module of the jaxpr dialect or of StableHLO, got ops of both
func.func @foreign(%x: tensor<f32>) -> tensor<f32> {
  %0 = "foo.bar"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.sin"(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
