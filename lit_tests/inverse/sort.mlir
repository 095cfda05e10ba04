// If the sorted numbers and the indices of the sort are known, the numbers are put back in place.

// RUN: jaxmlir-opt --jaxpr-inverse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[1.0, 2.0, 3.0], [2, 0, 1]' | FileCheck %s --check-prefix=EXEC

// CHECK: func.func private @f.inverse(%[[Y:.*]]: tensor<3xf32>, %[[ORDER:.*]]: tensor<3xi32>) -> tensor<3xf32> {

// EXEC: result: f32[3] = [2.0, 3.0, 1.0]
func.func public @f(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %0 = "jaxpr.iota"() {dtype = i32, shape = array<i64: 3>, dimension = 0 : i64} : () -> tensor<3xi32>
  %1:2 = "jaxpr.sort"(%x, %0) {dimension = 0 : i64, is_stable = true, num_keys = 1 : i64} : (tensor<3xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %1#0, %1#1 : tensor<3xf32>, tensor<3xi32>
}
