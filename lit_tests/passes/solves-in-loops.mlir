// A matrix that a loop solves with is inverted before the loop.

// RUN: jaxmlir-opt --jaxpr-reassociate-solves %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-reassociate-solves %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[0.0, 1.0], [0.5, 0.5]], [3.0, -1.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[0.0, 1.0], [0.5, 0.5]], [3.0, -1.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-reassociate-solves --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: solves-in-loops.mlir:{{[0-9]+}}:8: remark: [jaxpr-reassociate-solves] inverted once: a matrix of 2 rows, instead of 9 solves with it
// REMARK-NOT: inverted

// w solves a^T w = 1, so a^-1 b = w^T b: the solve becomes @product_transposed, called with w instead of a.
// A loop stays if it is too short, or if it does not solve with the matrix's own factors.
// EXEC: result[0]: f32[2] = [-1365.0, 683.0]
// EXEC-NEXT: result[1]: f32[2] = [11.0, -5.0]
// EXEC-NEXT: result[2]: f32[2] = [-1365.0, 683.0]
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[A:.*]]: tensor<2x2xf32>, %[[X:.*]]: tensor<2xf32>)
// CHECK:         %[[T:.*]] = "jaxpr.transpose"(%{{.*}}) {permutation = array<i64: 1, 0>}
// CHECK-NEXT:    %[[LU:.*]]:3 = "jaxpr.lu"(%[[T]])
// CHECK:         %[[L:.*]] = "jaxpr.triangular_solve"(%[[LU]]#0, %{{.*}}) {{.*}}lower = true
// CHECK-NEXT:    %[[W:.*]] = "jaxpr.triangular_solve"(%[[LU]]#0, %[[L]]) {{.*}}lower = false
// CHECK-NEXT:    "jaxpr.scan"(%[[A]], %[[W]], %[[X]]) {jaxpr = @long, length = 9 : i64
// CHECK-NEXT:    "jaxpr.scan"(%[[A]], %{{.*}}#0, %{{.*}}#2, %[[X]]) {jaxpr = @short, length = 2 : i64
// CHECK:         "jaxpr.scan"({{.*}}) {jaxpr = @another, length = 9 : i64
// CHECK-LABEL: func.func private @long
// CHECK-NEXT:    "jaxpr.custom_linear_solve"({{.*}}matvec = @product, solve = @product_transposed, transpose_solve = @product, vecmat = @product_transposed
// CHECK-LABEL: func.func private @short
// CHECK-NEXT:    "jaxpr.custom_linear_solve"({{.*}}solve = @solve, transpose_solve = @transposed
// CHECK-LABEL: func.func private @another
// CHECK-NEXT:    "jaxpr.custom_linear_solve"({{.*}}solve = @solve, transpose_solve = @transposed
func.func public @main(%a: tensor<2x2xf32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.stop_gradient"(%a) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1:3 = "jaxpr.lu"(%0) : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<2xi32>)
  %2 = "jaxpr.scan"(%a, %1#0, %1#2, %x) {jaxpr = @long, length = 9 : i64, num_carry = 1 : i64, num_consts = 3 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "jaxpr.scan"(%a, %1#0, %1#2, %x) {jaxpr = @short, length = 2 : i64, num_carry = 1 : i64, num_consts = 3 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = "jaxpr.mul"(%a, %a) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %5 = "jaxpr.scan"(%4, %1#0, %1#2, %x) {jaxpr = @another, length = 9 : i64, num_carry = 1 : i64, num_consts = 3 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>) -> tensor<2xf32>
  return %2, %3, %5 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func private @long(%a: tensor<2x2xf32>, %lu: tensor<2x2xf32>, %p: tensor<2xi32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.custom_linear_solve"(%a, %a, %lu, %p, %lu, %p, %x) {const_lengths = {_LinearSolveTuple = {matvec = 1 : i64, solve = 2 : i64, transpose_solve = 2 : i64, vecmat = 1 : i64}}, jaxprs = {_LinearSolveTuple = {matvec = @product, solve = @solve, transpose_solve = @transposed, vecmat = @product_transposed}}} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @short(%a: tensor<2x2xf32>, %lu: tensor<2x2xf32>, %p: tensor<2xi32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.custom_linear_solve"(%a, %a, %lu, %p, %lu, %p, %x) {const_lengths = {_LinearSolveTuple = {matvec = 1 : i64, solve = 2 : i64, transpose_solve = 2 : i64, vecmat = 1 : i64}}, jaxprs = {_LinearSolveTuple = {matvec = @product, solve = @solve, transpose_solve = @transposed, vecmat = @product_transposed}}} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @another(%a: tensor<2x2xf32>, %lu: tensor<2x2xf32>, %p: tensor<2xi32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.custom_linear_solve"(%a, %a, %lu, %p, %lu, %p, %x) {const_lengths = {_LinearSolveTuple = {matvec = 1 : i64, solve = 2 : i64, transpose_solve = 2 : i64, vecmat = 1 : i64}}, jaxprs = {_LinearSolveTuple = {matvec = @product, solve = @solve, transpose_solve = @transposed, vecmat = @product_transposed}}} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @product(%a: tensor<2x2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.dot_general"(%a, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], precision = [{Precision = "HIGHEST"}, {Precision = "HIGHEST"}]} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @product_transposed(%a: tensor<2x2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.dot_general"(%x, %a) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], precision = [{Precision = "HIGHEST"}, {Precision = "HIGHEST"}]} : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @solve(%lu: tensor<2x2xf32>, %p: tensor<2xi32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.reshape"(%b) {new_sizes = array<i64: 2, 1>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %1 = "jaxpr.reshape"(%p) {new_sizes = array<i64: 2, 1>} : (tensor<2xi32>) -> tensor<2x1xi32>
  %2 = "jaxpr.gather"(%0, %1) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = array<i64: 1>, start_index_map = array<i64: 0>}}, mode = {GatherScatterMode = "PROMISE_IN_BOUNDS"}, slice_sizes = array<i64: 1, 1>} : (tensor<2x1xf32>, tensor<2x1xi32>) -> tensor<2x1xf32>
  %3 = "jaxpr.triangular_solve"(%lu, %2) {conjugate_a = false, left_side = true, lower = true, transpose_a = false, unit_diagonal = true} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = "jaxpr.triangular_solve"(%lu, %3) {conjugate_a = false, left_side = true, lower = false, transpose_a = false, unit_diagonal = false} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %5 = "jaxpr.squeeze"(%4) {dimensions = array<i64: 1>} : (tensor<2x1xf32>) -> tensor<2xf32>
  return %5 : tensor<2xf32>
}
func.func private @transposed(%lu: tensor<2x2xf32>, %p: tensor<2xi32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.reshape"(%b) {new_sizes = array<i64: 2, 1>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %1 = "jaxpr.triangular_solve"(%lu, %0) {conjugate_a = false, left_side = true, lower = false, transpose_a = true, unit_diagonal = false} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %2 = "jaxpr.triangular_solve"(%lu, %1) {conjugate_a = false, left_side = true, lower = true, transpose_a = true, unit_diagonal = true} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %i = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 2>} : () -> tensor<2xi32>
  %3:2 = "jaxpr.sort"(%p, %i) {dimension = 0 : i64, is_stable = true, num_keys = 1 : i64} : (tensor<2xi32>, tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>)
  %q = "jaxpr.reshape"(%3#1) {new_sizes = array<i64: 2, 1>} : (tensor<2xi32>) -> tensor<2x1xi32>
  %4 = "jaxpr.gather"(%2, %q) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = array<i64: 1>, start_index_map = array<i64: 0>}}, mode = {GatherScatterMode = "PROMISE_IN_BOUNDS"}, slice_sizes = array<i64: 1, 1>} : (tensor<2x1xf32>, tensor<2x1xi32>) -> tensor<2x1xf32>
  %5 = "jaxpr.squeeze"(%4) {dimensions = array<i64: 1>} : (tensor<2x1xf32>) -> tensor<2xf32>
  return %5 : tensor<2xf32>
}
