// A product with the identity and an outer product, as a product with vectors.

// RUN: jaxmlir-opt --jaxpr-reassociate=min-gain=0 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-reassociate %s -o %t.small
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.small %t.same
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [1.0, 0.0, -2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [1.0, 0.0, -2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-reassociate=min-gain=0 --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: distribute.mlir:{{[0-9]+}}:8: remark: [jaxpr-reassociate] distributed a product over a sum of 2 terms:

// CHECK-LABEL: func.func public @main(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x3xf32>, %[[V:[a-z0-9]+]]: tensor<3xf32>)
// CHECK:         %[[XV:.*]] = "jaxpr.dot_general"(%[[X]], %[[V]]) {{.*}} -> tensor<2xf32>
// CHECK:         %[[R:.*]] = "jaxpr.sub"(%[[X]], %{{.*}}) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK:         return %[[R]]

// EXEC: result: f32[2,3] = {{\[}}[6.0, 2.0, -7.0],
// EXEC-NEXT: [12.0, 5.0, -10.0]]
func.func public @main(%x: tensor<2x3xf32>, %v: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 3, 3>} : () -> tensor<3x3xi32>
  %1 = "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 3, 3>} : () -> tensor<3x3xi32>
  %2 = "jaxpr.eq"(%0, %1) : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
  %3 = "jaxpr.convert_element_type"(%2) {new_dtype = f32} : (tensor<3x3xi1>) -> tensor<3x3xf32>
  %4 = "jaxpr.broadcast_in_dim"(%v) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 3, 3>} : (tensor<3xf32>) -> tensor<3x3xf32>
  %5 = "jaxpr.broadcast_in_dim"(%v) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 3, 3>} : (tensor<3xf32>) -> tensor<3x3xf32>
  %6 = "jaxpr.mul"(%4, %5) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %7 = "jaxpr.sub"(%3, %6) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  // x (I - v v^T)
  %8 = "jaxpr.dot_general"(%x, %7) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  return %8 : tensor<2x3xf32>
}
