// A user's primitive is known once its module is imported. Then every pass and tool works on it,
// with the rules that the module registers with JAX.
//
//   square_add(a, b) = multiply_add(a, a, b) = a * a + b

// RUN: cd %S/Inputs && jaxmlir-opt %s --load multiply_add --jaxpr-jvp | FileCheck %s
// RUN: cd %S/Inputs && jaxmlir-opt %s --load multiply_add --jaxpr-grad | jaxmlir-run --load multiply_add --entry=square_add.grad --args '2.0, 10.0' | FileCheck %s --check-prefix=GRAD
// RUN: cd %S/Inputs && jaxmlir-opt %s --load multiply_add --jaxpr-legalize-to-stablehlo | FileCheck %s --check-prefix=LOWER
// RUN: not jaxmlir-opt %s --jaxpr-jvp 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK:      func.func private @square_add.jvp(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>, %[[DA:.*]]: tensor<f32>, %[[DB:.*]]: tensor<f32>)
// CHECK-NEXT:   %[[OUT:.*]] = "jaxpr.multiply_add"(%[[A]], %[[A]], %[[B]])
// CHECK-NEXT:   %[[INNER:.*]] = "jaxpr.multiply_add"(%[[A]], %[[DA]], %[[DB]])
// CHECK-NEXT:   %[[DOUT:.*]] = "jaxpr.multiply_add"(%[[DA]], %[[A]], %[[INNER]])
// CHECK-NEXT:   return %[[OUT]], %[[DOUT]]

// d(a * a + b)/da = 2 a
// GRAD: result: f32[] = 4.0

// LOWER:      func.func public @square_add
// LOWER-NEXT:   %[[P:.*]] = stablehlo.multiply %arg0, %arg0
// LOWER-NEXT:   %[[S:.*]] = stablehlo.add %[[P]], %arg1

// UNKNOWN: load-primitives.mlir:[[# @LINE + 2]]:8: error: 'jaxpr.multiply_add' op: the installed JAX has no primitive "multiply_add", and no imported module registers one{{.*}}(if it is your own, import its module: --load)
func.func public @square_add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.multiply_add"(%a, %a, %b) : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
