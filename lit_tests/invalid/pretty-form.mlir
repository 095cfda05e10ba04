// RUN: not jaxmlir-opt %s 2>&1 | FileCheck %s

// CHECK: pretty-form.mlir:[[# @LINE + 3]]:8: error: Dialect `jaxpr' not found for custom op 'jaxpr.sin'
// CHECK: note: the ops of dialects that are not in jaxlib's MLIR, such as jaxpr, are read only in the generic form, such as "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = jaxpr.sin %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
