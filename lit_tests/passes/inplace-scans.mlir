// Scans read rows of an array in place, and write rows directly to the result's place.

// RUN: jaxmlir-opt --jaxpr-inplace-scans=min-piece=0 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-inplace-scans=min-piece=0 %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt --target=tpu --jaxpr-inplace-scans=min-piece=0 %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]], [5.0, 7.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]], [5.0, 7.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-inplace-scans=min-piece=0 --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: inplace-scans.mlir:{{[0-9]+}}:10: remark: [jaxpr-inplace-scans] arrays read in place: 1, written in place: 1

// The running sums of the columns of %x from the second column on, as columns after %start.
// CHECK-LABEL: func.func public @main(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x3xf32>, %[[START:[a-z0-9]+]]: tensor<2xf32>
// CHECK:         %[[FIRST:.*]] = "jaxpr.reshape"(%[[START]])
// CHECK:         %[[ZEROS:.*]] = "jaxpr.broadcast_in_dim"({{.*}} -> tensor<2x2xf32>
// CHECK:         %[[PLACE:.*]] = "jaxpr.concatenate"(%[[FIRST]], %[[ZEROS]]) {dimension = 1 : i64}
// CHECK:         %[[OUT:.*]]:3 = "jaxpr.scan"(%[[X]], %[[START]], %{{.*}}, %[[PLACE]]) {jaxpr = @sum, length = 2 : i64, num_carry = 3 : i64, num_consts = 1 : i64}
// CHECK-NEXT:    return %[[OUT]]#2 : tensor<2x3xf32>

// CHECK-LABEL: func.func private @sum(
// CHECK-SAME:    %[[XS:[a-z0-9]+]]: tensor<2x3xf32>, %[[H:[a-z0-9]+]]: tensor<2xf32>, %[[STEP:[a-z0-9]+]]: tensor<i32>, %[[YS:[a-z0-9]+]]: tensor<2x3xf32>
// CHECK:         %[[NEXT:.*]] = "jaxpr.add"(%[[STEP]], %
// CHECK:         %[[I:.*]] = "jaxpr.add"(%[[STEP]], %
// CHECK:         "jaxpr.dynamic_slice"(%[[XS]], %{{.*}}, %[[I]]) {slice_sizes = array<i64: 2, 1>}
// CHECK:         %[[SUM:.*]] = "jaxpr.add"(%[[H]], %
// CHECK:         %[[COLUMN:.*]] = "jaxpr.reshape"(%[[SUM]]) {new_sizes = array<i64: 2, 1>}
// CHECK:         %[[AFTER:.*]] = "jaxpr.dynamic_update_slice"(%[[YS]], %[[COLUMN]], %{{.*}}, %[[I]])
// CHECK:         return %[[SUM]], %[[NEXT]], %[[AFTER]]

// EXEC: result: f32[2,3] = {{.*}}[5.0, 7.0, 10.0]
// EXEC: [7.0, 27.0, 57.0]
func.func public @main(%x: tensor<2x3xf32>, %start: tensor<2xf32>) -> tensor<2x3xf32> {
  %0 = "jaxpr.slice"(%x) {start_indices = array<i64: 0, 1>, limit_indices = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %1 = "jaxpr.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2:2 = "jaxpr.scan"(%start, %1) {jaxpr = @sum, length = 2 : i64, num_carry = 1 : i64} : (tensor<2xf32>, tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2x2xf32>)
  %3 = "jaxpr.transpose"(%2#1) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = "jaxpr.reshape"(%start) {new_sizes = array<i64: 2, 1>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %5 = "jaxpr.concatenate"(%4, %3) {dimension = 1 : i64} : (tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x3xf32>
  return %5 : tensor<2x3xf32>
}

func.func private @sum(%h: tensor<2xf32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.add"(%h, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
