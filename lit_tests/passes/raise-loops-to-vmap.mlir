// Loops with independent iterations are batched: here a sum over rows of products with a shared matrix.

// RUN: jaxmlir-opt --target=cuda --jaxpr-raise-loops --jaxpr-canonicalize --jaxpr-dce %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-raise-loops %s | FileCheck %s --check-prefix=SMALL
// RUN: jaxmlir-opt --target=cuda --jaxpr-raise-loops=batch-bytes=0 %s | FileCheck %s --check-prefix=SMALL
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [2.0, 1.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [2.0, 1.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --target=cuda --jaxpr-raise-loops --remarks=raise %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The products of four vectors with a matrix become one matrix product; the sum is reduced at the end.
// CHECK:      func.func public @main(%[[W:.*]]: tensor<2x2xf32>, %[[XS:.*]]: tensor<4x2xf32>) -> tensor<2xf32>
// CHECK:        %[[PRODUCTS:.*]] = "jaxpr.dot_general"(%[[W]], %[[XS]])
// CHECK:        "jaxpr.reduce_sum"(
// CHECK-NOT:    "jaxpr.scan"

// On a CPU, such a small loop is one kernel, and stays; it also stays if there is no memory for the batch.
// SMALL: "jaxpr.scan"

// EXEC: result: f32[2] = [12.0, 28.0]

// REMARK: raise-loops-to-vmap.mlir:{{[0-9]+}}:8: remark: [jaxpr-raise-loops] batched 4 independent iterations: 4 at a time, 16 bytes each
func.func public @main(%w: tensor<2x2xf32>, %xs: tensor<4x2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.constant"() {value = dense<0.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = "jaxpr.scan"(%w, %0, %xs) {jaxpr = @body, length = 4 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<2x2xf32>, tensor<2xf32>, tensor<4x2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @body(%w: tensor<2x2xf32>, %sum: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.dot_general"(%w, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.add"(%sum, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
