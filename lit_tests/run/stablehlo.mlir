// RUN: jaxmlir-run %s --args '[1, 2]' | FileCheck %s

// CHECK: result: f32[2] = [2.0, 4.0]
func.func public @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @add(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @add(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %y : tensor<2xf32>
  return %0 : tensor<2xf32>
}
