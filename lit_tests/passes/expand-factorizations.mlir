// Factorizations and solves of small matrices become ops on single entries.

// RUN: jaxmlir-opt --jaxpr-expand-factorizations=calls=inf %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-factorizations=calls=inf %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-opt --jaxpr-expand-factorizations=max-size=1 %s | diff %t.same -
// RUN: jaxmlir-opt --jaxpr-expand-factorizations=calls=inf %t | diff %t -
// RUN: jaxmlir-run %s --args '[[4.0, 2.0], [2.0, 5.0]], [[8.0], [6.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[4.0, 2.0], [2.0, 5.0]], [[8.0], [6.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [2.0, 3.0]], [[8.0], [6.0]]' | FileCheck %s --check-prefix=FAILS
// RUN: jaxmlir-run %t --args '[[1.0, 2.0], [2.0, 3.0]], [[8.0], [6.0]]' | FileCheck %s --check-prefix=FAILS
// RUN: jaxmlir-opt --jaxpr-expand-factorizations=calls=inf --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-factorizations.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-factorizations] expanded into ops on the entries of 2 x 2 matrices

// CHECK-LABEL: func.func public @main
// CHECK:         %[[A00:.*]] = "jaxpr.squeeze"
// CHECK:         %[[L00:.*]] = "jaxpr.sqrt"(%[[A00]])
// CHECK:         %[[L10:.*]] = "jaxpr.mul"
// CHECK:         %[[SQUARE:.*]] = "jaxpr.mul"(%[[L10]], %[[L10]])
// CHECK:         %[[REST:.*]] = "jaxpr.sub"(%{{.*}}, %[[SQUARE]])
// CHECK:         "jaxpr.sqrt"(%[[REST]])
// CHECK:         "jaxpr.or"
// CHECK:         %[[L:.*]] = "jaxpr.concatenate"({{.*}}) {dimension = 0 : i64} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
// CHECK:         "jaxpr.slice"(%[[L]])
// CHECK:         "jaxpr.div"
// CHECK:         "jaxpr.abs"
// CHECK:         "jaxpr.gt"
// CHECK:         "jaxpr.select_n"
// CHECK:         "jaxpr.lu"({{.*}}) : (tensor<5x5xf32>)

// EXEC:      result[0]: f32[2,1] = {{\[\[}}4.0],
// EXEC-NEXT: [1.0]]
// EXEC:      result[1]: f32[2,2] = {{\[\[}}4.0, 2.0],
// EXEC-NEXT: [0.5, 4.0]]
// EXEC:      result[2]: i32[2] = [0, 1]
// EXEC:      result[3]: i32[2] = [0, 1]
// FAILS:      result[0]: f32[2,1] = {{\[\[}}nan],
// FAILS-NEXT: [nan]]
// FAILS:      result[1]: f32[2,2] = {{\[\[}}2.0, 3.0],
// FAILS-NEXT: [0.5, 0.5]]
// FAILS:      result[2]: i32[2] = [1, 1]
// FAILS:      result[3]: i32[2] = [1, 0]
func.func public @main(%a: tensor<2x2xf32>, %b: tensor<2x1xf32>) -> (tensor<2x1xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xi32>, tensor<5x5xf32>) {
  %l = "jaxpr.cholesky"(%a) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %x = "jaxpr.triangular_solve"(%l, %b) {conjugate_a = false, left_side = true, lower = true, transpose_a = false, unit_diagonal = false} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %lu:3 = "jaxpr.lu"(%a) : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<2xi32>)
  // The factorization of a larger matrix stays.
  %one = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %five = "jaxpr.broadcast_in_dim"(%one) {broadcast_dimensions = array<i64>, shape = array<i64: 5, 5>} : (tensor<f32>) -> tensor<5x5xf32>
  %large:3 = "jaxpr.lu"(%five) : (tensor<5x5xf32>) -> (tensor<5x5xf32>, tensor<5xi32>, tensor<5xi32>)
  return %x, %lu#0, %lu#1, %lu#2, %large#0 : tensor<2x1xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xi32>, tensor<5x5xf32>
}
