// Sorts: integers of 64 bits hold a key and a position; the elements are taken in their order.

// RUN: jaxmlir-opt --jaxpr-expand-sorts=calls=inf %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-expand-sorts %s -o %t.small
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-sorts=calls=inf %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.small %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[2.0, -1.0, 0.0, -0.0, nan], [0, 1, 2, 3, 4]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[2.0, -1.0, 0.0, -0.0, nan], [0, 1, 2, 3, 4]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-expand-sorts=calls=inf --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-sorts.mlir:{{[0-9]+}}:10: remark: [jaxpr-expand-sorts] sorts 5 integers that hold a key and a position

// CHECK-LABEL: func.func public @main
// CHECK:         "jaxpr.shift_left"({{.*}} -> tensor<5xi64>
// CHECK:         "jaxpr.sort"({{.*}} : (tensor<5xi64>) -> tensor<5xi64>
// CHECK:         "jaxpr.gather"({{.*}} -> tensor<5xf32>
// CHECK:         "jaxpr.gather"({{.*}} -> tensor<5xi32>

// EXEC: result[0]: f32[5] = [-1.0, 0.0, -0.0, 2.0, nan]
// EXEC: result[1]: i32[5] = [1, 2, 3, 0, 4]
func.func public @main(%x: tensor<5xf32>, %i: tensor<5xi32>) -> (tensor<5xf32>, tensor<5xi32>) {
  %0:2 = "jaxpr.sort"(%x, %i) {dimension = 0 : i64, is_stable = true, num_keys = 1 : i64} : (tensor<5xf32>, tensor<5xi32>) -> (tensor<5xf32>, tensor<5xi32>)
  return %0#0, %0#1 : tensor<5xf32>, tensor<5xi32>
}
