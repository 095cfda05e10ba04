// RUN: jaxmlir-opt --jaxpr-raise-stablehlo --remarks=all %s -o /dev/null 2>&1 | FileCheck %s

// Each remark has the location, and the value of the derivative there.

func.func @f(%x: tensor<4xf32>, %p: tensor<4xi1>) -> (tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.constant dense<0.0> : tensor<4xf32>
  // CHECK: lost-rules.mlir:{{[0-9]+}}:8: remark: [jaxpr-raise-stablehlo] its derivative is 1/2 where the operand is 0
  %1 = stablehlo.maximum %x, %0 : tensor<4xf32>
  %2 = stablehlo.multiply %x, %x : tensor<4xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: lost-rules.mlir:{{[0-9]+}}:8: remark: [jaxpr-raise-stablehlo] the derivative of the root of a sum of squares is NaN
  %4 = stablehlo.sqrt %3 : tensor<f32>
  %5 = stablehlo.log %x : tensor<4xf32>
  // CHECK: lost-rules.mlir:{{[0-9]+}}:8: remark: [jaxpr-raise-stablehlo] its derivative is NaN where 'jaxpr.log' is not selected and its operand is 0
  %6 = stablehlo.select %p, %5, %0 : tensor<4xi1>, tensor<4xf32>
  // An op whose operand is guarded has a derivative everywhere.
  // CHECK-NOT: remark
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %7 = stablehlo.select %p, %x, %one : tensor<4xi1>, tensor<4xf32>
  %8 = stablehlo.log %7 : tensor<4xf32>
  %9 = stablehlo.select %p, %8, %0 : tensor<4xi1>, tensor<4xf32>
  return %1, %4, %6, %9 : tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
