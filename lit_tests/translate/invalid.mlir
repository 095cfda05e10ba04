// A translated module is verified first, like a module that is optimized or run.

// RUN: not jaxmlir-translate --to-stablehlo %s 2>&1 | FileCheck %s
// RUN: not jaxmlir-translate --to-jaxpr %s 2>&1 | FileCheck %s
// RUN: not jaxmlir-translate --emit-artifact %s -o %t.jaxmlir 2>&1 | FileCheck %s
// RUN: not ls %t.jaxmlir

// CHECK: invalid.mlir:[[# @LINE + 2]]:8: error: 'jaxpr.sin' op result #0: expected tensor<4xf32> (by JAX's abstract evaluation of sin), got tensor<3xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
