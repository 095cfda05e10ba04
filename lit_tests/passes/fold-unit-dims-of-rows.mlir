// If a loop reshapes the rows that it reads, it goes over rows without dimensions of size 1 instead.

// RUN: jaxmlir-opt --jaxpr-fold-unit-dims %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-fold-unit-dims %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0], [11.0, 12.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0], [11.0, 12.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-fold-unit-dims --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: remark: [jaxpr-fold-unit-dims] removed dimensions of size 1 from 1 array that the scan slices
// CHECK:      func.func public @rows(%[[X:.*]]: tensor<6x2xf32>)
// CHECK-NEXT:   %[[ZERO:.*]] = "jaxpr.constant"
// CHECK-NEXT:   %[[ROWS:.*]] = "jaxpr.reshape"(%[[X]]) {new_sizes = array<i64: 2, 3, 2>}
// CHECK-NEXT:   "jaxpr.scan"(%[[ZERO]], %[[ROWS]])
// CHECK-SAME:     (tensor<3x2xf32>, tensor<2x3x2xf32>) -> tensor<3x2xf32>
// CHECK:      func.func private @row(%[[C:.*]]: tensor<3x2xf32>, %[[ROW:.*]]: tensor<3x2xf32>)
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.add"(%[[C]], %[[ROW]])
// CHECK-NEXT:   return %[[SUM]]
// EXEC:       result: f32[3,2] = {{\[\[}}8.0, 10.0],
// EXEC-NEXT:   [12.0, 14.0],
// EXEC-NEXT:   [16.0, 18.0]]
func.func public @rows(%x: tensor<6x2xf32>) -> tensor<3x2xf32> {
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<3x2xf32>} : () -> tensor<3x2xf32>
  %rows = "jaxpr.reshape"(%x) {new_sizes = array<i64: 2, 3, 1, 2>} : (tensor<6x2xf32>) -> tensor<2x3x1x2xf32>
  %sum = "jaxpr.scan"(%zero, %rows) {jaxpr = @row, length = 2 : i64, num_carry = 1 : i64, num_consts = 0 : i64} : (tensor<3x2xf32>, tensor<2x3x1x2xf32>) -> tensor<3x2xf32>
  return %sum : tensor<3x2xf32>
}

func.func private @row(%c: tensor<3x2xf32>, %row: tensor<3x1x2xf32>) -> tensor<3x2xf32> {
  %0 = "jaxpr.squeeze"(%row) {dimensions = array<i64: 1>} : (tensor<3x1x2xf32>) -> tensor<3x2xf32>
  %1 = "jaxpr.add"(%c, %0) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}
