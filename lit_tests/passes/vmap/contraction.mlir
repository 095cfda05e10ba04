// A product with one batched operand is one larger product. With two batched operands, the batch
// dimension becomes a batch dimension of the product.
//
//   [[1, 2], [3, 4]] and [[0, 1], [1, 0]] times [1, 2], then the dot product with [1, 10] and [2, 20]

// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=0,-1,0' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[[[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]], [1.0, 2.0], [[1.0, 10.0], [2.0, 20.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.vmap(%[[A:.*]]: tensor<2x2x2xf32>, %[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<2x2xf32>)
// CHECK-NEXT:   %[[AX:.*]] = "jaxpr.dot_general"(%[[A]], %[[X]]) {dimension_numbers = [
// CHECK-SAME:     array<i64: 2>, array<i64: 0>], [
// CHECK-SAME:     (tensor<2x2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:   "jaxpr.dot_general"(%[[AX]], %[[Y]]) {dimension_numbers = [
// CHECK-SAME:     array<i64: 1>, array<i64: 1>], [array<i64: 0>, array<i64: 0>]]
// CHECK-SAME:     (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2xf32>

// EXEC:      result: f32[2] = [115.0, 24.0]
func.func public @f(%a: tensor<2x2xf32>, %x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<f32> {
  %0 = "jaxpr.dot_general"(%a, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.dot_general"(%0, %y) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
