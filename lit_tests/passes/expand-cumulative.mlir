// Cumulative sums: within blocks of 8 elements, then the same of the totals of blocks, and both are
// added.  Cumulative log-sum-exps take blocks of 4.

// RUN: jaxmlir-opt --jaxpr-expand-cumulative='calls=inf min-saved=0' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-expand-cumulative=calls=inf %s -o %t.small
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-cumulative='calls=inf min-saved=0' %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.small %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18], [0.0, 0.0, -100.0, 50.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18], [0.0, 0.0, -100.0, 50.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-expand-cumulative='calls=inf min-saved=0' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-cumulative.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-cumulative] computed in blocks of 8 elements
// REMARK: expand-cumulative.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-cumulative] computed in blocks of 4 elements

// The 18 elements are padded to three blocks; the first two have totals that others come after.
// CHECK-LABEL:    func.func public @main
// CHECK-NOT:        "jaxpr.cum
// CHECK:            "jaxpr.pad"{{.*}} -> tensor<1x24x1xi32>
// CHECK-COUNT-7:    "jaxpr.add"{{.*}} -> tensor<3x8xi32>
// CHECK:            "jaxpr.add"{{.*}} -> tensor<1x2xi32>
// CHECK:            "jaxpr.add"{{.*}} -> tensor<1x3x8xi32>
// CHECK-COUNT-3:    "jaxpr.log1p"{{.*}} -> tensor<1x4xf32>
// CHECK-NOT:        "jaxpr.log1p"

// EXEC: result[0]: i32[18] = [1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66, 78, 91, 105, 120, 136, 153, 171]
// EXEC: result[1]: f32[4] = [50.0, 50.0, 50.0, 50.0]
func.func public @main(%x: tensor<18xi32>, %y: tensor<4xf32>) -> (tensor<18xi32>, tensor<4xf32>) {
  %0 = "jaxpr.cumsum"(%x) {axis = 0 : i64, reverse = false} : (tensor<18xi32>) -> tensor<18xi32>
  %1 = "jaxpr.cumlogsumexp"(%y) {axis = 0 : i64, reverse = true} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<18xi32>, tensor<4xf32>
}
