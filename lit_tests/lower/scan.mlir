// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s
// RUN: jaxmlir-run %s --args '2.0, 1.0, [1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC

// A scan becomes a loop with a counter, at which slices are read and written. %a is loop-invariant.

// CHECK-LABEL: func.func public @f
// CHECK: stablehlo.while
// CHECK: stablehlo.compare LT
// CHECK: {{stablehlo.dynamic_slice|@dynamic_index_in_dim}}
// CHECK: stablehlo.multiply
// CHECK: {{stablehlo.dynamic_update_slice|@dynamic_update_index_in_dim}}
// EXEC: result[0]: f32[] = 19.0
// EXEC: result[1]: f32[3] = [1.0, 3.0, 8.0]
func.func public @f(%a: tensor<f32>, %init: tensor<f32>, %xs: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) {
  %0:2 = "jaxpr.scan"(%a, %init, %xs) {jaxpr = @horner, length = 3 : i64, num_consts = 1 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<f32>, tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<f32>, tensor<3xf32>
}
func.func private @horner(%a: tensor<f32>, %carry: tensor<f32>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.mul"(%a, %carry) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%0, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1, %carry : tensor<f32>, tensor<f32>
}
