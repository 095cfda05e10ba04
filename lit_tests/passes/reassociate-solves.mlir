// Linear systems are solved for the vectors that the program uses, not for matrices that multiply these vectors.

// RUN: jaxmlir-opt --jaxpr-reassociate-solves %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-reassociate-solves %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-reassociate-solves --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// (L^-1 B) y is L^-1 (B y).
// REMARK: reassociate-solves.mlir:{{[0-9]+}}:8: remark: [jaxpr-reassociate-solves] reassociated: solved for 1 right-hand side instead of 3
// CHECK-LABEL: func.func private @columns
// CHECK-SAME:    (%[[L:.*]]: tensor<2x2xf32>, %[[B:.*]]: tensor<2x3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK:         %[[BY:.*]] = "jaxpr.dot_general"(%[[B]], %{{.*}}) {{.*}} : (tensor<2x3xf32>, tensor<3x1xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:    "jaxpr.triangular_solve"(%[[L]], %[[BY]]) {{.*}}lower = true, transpose_a = false{{.*}} -> tensor<2x1xf32>
func.func private @columns(%l: tensor<2x2xf32>, %b: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.triangular_solve"(%l, %b) {conjugate_a = false, left_side = true, lower = true, transpose_a = false, unit_diagonal = false} : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "jaxpr.dot_general"(%0, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// z L^-1 is L^-T z: the transposed system. No product is needed, because the right sides are the identity.
// CHECK-LABEL: func.func private @rows
// CHECK-NOT:     "jaxpr.dot_general"
// CHECK:         "jaxpr.triangular_solve"({{.*}}lower = true, transpose_a = true{{.*}} -> tensor<2x1xf32>
// CHECK-NOT:     "jaxpr.dot_general"
func.func private @rows(%l: tensor<2x2xf32>, %z: tensor<2xf32>) -> tensor<2xf32> {
  %i = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 2, 2>} : () -> tensor<2x2xi32>
  %j = "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 2, 2>} : () -> tensor<2x2xi32>
  %0 = "jaxpr.eq"(%i, %j) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
  %1 = "jaxpr.convert_element_type"(%0) {new_dtype = f32} : (tensor<2x2xi1>) -> tensor<2x2xf32>
  %2 = "jaxpr.triangular_solve"(%l, %1) {conjugate_a = false, left_side = true, lower = true, transpose_a = false, unit_diagonal = false} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = "jaxpr.dot_general"(%z, %2) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// A solution that is a result itself is computed by solving.
// CHECK-LABEL: func.func private @wanted
// CHECK-NEXT:    "jaxpr.triangular_solve"(%arg0, %arg1) {{.*}} -> tensor<2x3xf32>
func.func private @wanted(%l: tensor<2x2xf32>, %b: tensor<2x3xf32>, %y: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>) {
  %0 = "jaxpr.triangular_solve"(%l, %b) {conjugate_a = false, left_side = true, lower = true, transpose_a = false, unit_diagonal = false} : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "jaxpr.dot_general"(%0, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2xf32>
}

// EXEC: result[0]: f32[2] = [5.0, -2.25]
// EXEC: result[1]: f32[2] = [0.375, 0.25]
// EXEC: result[2]: f32[2,3] =
// EXEC: result[3]: f32[2] = [5.0, -2.25]
func.func public @main() -> (tensor<2xf32>, tensor<2xf32>, tensor<2x3xf32>, tensor<2xf32>) {
  %l = "jaxpr.constant"() {value = dense<[[2.0, 0.0], [1.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %b = "jaxpr.constant"() {value = dense<[[2.0, 4.0, 0.0], [1.0, -2.0, -1.0]]> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %y = "jaxpr.constant"() {value = dense<[1.0, 2.0, 1.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %z = "jaxpr.constant"() {value = dense<[1.0, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "jaxpr.jit"(%l, %b, %y) {jaxpr = @columns, name = "columns"} : (tensor<2x2xf32>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  %1 = "jaxpr.jit"(%l, %z) {jaxpr = @rows, name = "rows"} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2:2 = "jaxpr.jit"(%l, %b, %y) {jaxpr = @wanted, name = "wanted"} : (tensor<2x2xf32>, tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)
  return %0, %1, %2#0, %2#1 : tensor<2xf32>, tensor<2xf32>, tensor<2x3xf32>, tensor<2xf32>
}
