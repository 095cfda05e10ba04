// Ops compute with arrays without dimensions of size 1.

// RUN: jaxmlir-opt --jaxpr-fold-unit-dims %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-fold-unit-dims %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [6.0]]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [6.0]]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-fold-unit-dims --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// One reshape at the start and one at the end. A transpose that moves only dimensions of size 1 is
// a reshape. The last sum, over such a dimension alone, is left to jaxpr-canonicalize.
// REMARK: fold-unit-dims.mlir:{{[0-9]+}}:8: remark: [jaxpr-fold-unit-dims] computed without dimensions of size 1, as tensor<3x2xf32>
// CHECK:      func.func public @main(%[[X:.*]]: tensor<3x2x1xf32>)
// CHECK-NEXT:   %[[S:.*]] = "jaxpr.reshape"(%[[X]]) {new_sizes = array<i64: 3, 2>}
// CHECK-NEXT:   %[[SQUARE:.*]] = "jaxpr.mul"(%[[S]], %[[S]]) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.reduce_sum"(%[[SQUARE]]) {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3xf32>
// CHECK-NEXT:   %[[Y:.*]] = "jaxpr.reshape"(%[[SUM]]) {new_sizes = array<i64: 3, 1>}
// CHECK-NEXT:   %[[Z:.*]] = "jaxpr.reduce_sum"(%[[Y]]) {axes = array<i64: 1>} : (tensor<3x1xf32>) -> tensor<3xf32>
// CHECK-NEXT:   return %[[Z]]
// EXEC:       result: f32[3] = [5.0, 25.0, 61.0]
func.func public @main(%x: tensor<3x2x1xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.transpose"(%x) {permutation = array<i64: 2, 0, 1>} : (tensor<3x2x1xf32>) -> tensor<1x3x2xf32>
  %1 = "jaxpr.transpose"(%0) {permutation = array<i64: 1, 2, 0>} : (tensor<1x3x2xf32>) -> tensor<3x2x1xf32>
  %2 = "jaxpr.mul"(%1, %x) : (tensor<3x2x1xf32>, tensor<3x2x1xf32>) -> tensor<3x2x1xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 1>} : (tensor<3x2x1xf32>) -> tensor<3x1xf32>
  %4 = "jaxpr.reduce_sum"(%3) {axes = array<i64: 1>} : (tensor<3x1xf32>) -> tensor<3xf32>
  return %4 : tensor<3xf32>
}
