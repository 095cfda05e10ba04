// What a loop only stacks is computed after it, from what it stacks anyway.

// RUN: jaxmlir-opt --target=tpu:v5e --jaxpr-distribute-scans %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu:v5e --jaxpr-distribute-scans %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[1.0, 0.0], [0.0, 2.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[1.0, 0.0], [0.0, 2.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --target=tpu:v5e --jaxpr-distribute-scans --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The state is stacked, and its product with a constant as well: the product is taken after the
// loop.  The loop stays as long as it is, if the state is not stacked.
// REMARK: distribute-scans.mlir:{{[0-9]+}}:10: remark: [jaxpr-distribute-scans] computes 1 stacked result after the loop, in a batch
// REMARK-NOT: remark
// CHECK-LABEL: func.func public @main
// CHECK:         %[[LOOP:.*]]:2 = "jaxpr.scan"(%{{.*}}, %arg0) {jaxpr = @both
// CHECK-NEXT:    %[[PRODUCTS:.*]] = "jaxpr.dot_general"(%[[LOOP]]#1, %arg1)
// CHECK:         "jaxpr.scan"{{.*}} {jaxpr = @products
// CHECK:         return %[[LOOP]]#1
// CHECK-LABEL: func.func private @both
// CHECK-NOT:     dot_general
// CHECK-LABEL: func.func private @products
// CHECK:         dot_general
// EXEC:          [9.0, 12.0]]
// EXEC:          [9.0, 24.0]]
// EXEC:          [9.0, 24.0]]
func.func public @main(%xs: tensor<3x2xf32>, %w: tensor<2x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %0 = "jaxpr.constant"() {value = dense<0.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %1:3 = "jaxpr.scan"(%w, %0, %xs) {jaxpr = @both, length = 3 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<2x2xf32>, tensor<2xf32>, tensor<3x2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>, tensor<3x2xf32>)
  %2:2 = "jaxpr.scan"(%w, %0, %xs) {jaxpr = @products, length = 3 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<2x2xf32>, tensor<2xf32>, tensor<3x2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
  return %1#1, %1#2, %2#1 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}

func.func private @both(%w: tensor<2x2xf32>, %s: tensor<2xf32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.add"(%s, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.dot_general"(%0, %w) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  return %0, %0, %1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

func.func private @products(%w: tensor<2x2xf32>, %s: tensor<2xf32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.add"(%s, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.dot_general"(%0, %w) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
