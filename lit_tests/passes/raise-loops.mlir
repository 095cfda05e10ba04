// Raising loops: reads and writes at the loop's counter become slices (xs) and stacked results (ys) of a scan.

// RUN: jaxmlir-opt --jaxpr-raise-loops --jaxpr-canonicalize --jaxpr-dce %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-raise-loops --remarks=raise %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// for i in 0, 1, 2: out[i + 1] = out[i] * x[i]. The counter is gone, x is scanned, and the last row of out is carried.
// CHECK:      func.func public @main(%[[X:.*]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-DAG:    %[[ROWS:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 3>, start_indices = array<i64: 0>{{.*}}}
// CHECK-DAG:    %[[FIRST:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>{{.*}}}
// CHECK:        %[[LOOP:.*]]:2 = "jaxpr.scan"(%[[FIRST]], %[[ROWS]]) {jaxpr = @body, length = 3 : i64, num_carry = 1 : i64} : (tensor<1xf32>, tensor<3xf32>) -> (tensor<1xf32>, tensor<3x1xf32>)
// CHECK-NEXT:   %[[YS:.*]] = "jaxpr.reshape"(%[[LOOP]]#1) {new_sizes = array<i64: 3>}
// CHECK:        %[[OUT:.*]] = "jaxpr.dynamic_update_slice"(%[[X]], %[[YS]],
// CHECK-NEXT:   return %[[OUT]]
// CHECK:      func.func private @body(%[[LAST:.*]]: tensor<1xf32>, %[[X:.*]]: tensor<f32>) -> (tensor<1xf32>, tensor<1xf32>)
// CHECK-NEXT:   %[[ROW:.*]] = "jaxpr.reshape"(%[[X]]) {new_sizes = array<i64: 1>}
// CHECK-NEXT:   %[[PRODUCT:.*]] = "jaxpr.mul"(%[[LAST]], %[[ROW]])
// CHECK-NEXT:   return %[[PRODUCT]], %[[PRODUCT]]

// EXEC: result: f32[4] = [1.0, 1.0, 2.0, 6.0]

// REMARK-DAG: raise-loops.mlir:{{[0-9]+}}:10: remark: [jaxpr-raise-loops] replaced by a scan: the loop runs 3 times
// REMARK-DAG: remark: [jaxpr-raise-loops] indexed by the loop's counter: replaced by a slice of the scan
// REMARK-DAG: remark: [jaxpr-raise-loops] indexed by the loop's counter: replaced by a stacked result of the scan, of 3 slabs of [1]
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %1:2 = "jaxpr.while"(%x, %0, %x) {cond_jaxpr = @cond, body_jaxpr = @body, body_nconsts = 1 : i64} : (tensor<4xf32>, tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
  return %1#1 : tensor<4xf32>
}
func.func private @cond(%i: tensor<i32>, %out: tensor<4xf32>) -> tensor<i1> {
  %0 = "jaxpr.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %1 = "jaxpr.lt"(%i, %0) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func private @body(%x: tensor<4xf32>, %i: tensor<i32>, %out: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {
  %0 = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %1 = "jaxpr.add"(%i, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %2 = "jaxpr.dynamic_slice"(%out, %i) {slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
  %3 = "jaxpr.dynamic_slice"(%x, %i) {slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
  %4 = "jaxpr.mul"(%2, %3) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %5 = "jaxpr.dynamic_update_slice"(%out, %4, %1) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  return %1, %5 : tensor<i32>, tensor<4xf32>
}
