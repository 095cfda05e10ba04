// Rolling up: consecutive blocks of ops become the iterations of a scan.

// RUN: jaxmlir-opt --jaxpr-reroll=min-length=4 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-reroll=min-length=4 %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt --jaxpr-reroll='stored=0.0001 min-length=4' %s | FileCheck %s --check-prefix=DEAR
// RUN: jaxmlir-opt --jaxpr-reroll %s | FileCheck %s --check-prefix=DEAR
// RUN: jaxmlir-run %s --args '[[0.5, 0.1], [-0.2, 0.4]], [0.3, 0.7], [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[0.5, 0.1], [-0.2, 0.4]], [0.3, 0.7], [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-reroll=min-length=4 --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// Each block reads the same matrix, the vector of the block before, and one row of an array; none of
// these values is copied. The four numbers become an array.
// CHECK:      func.func public @main(%[[W:.*]]: tensor<2x2xf32>, %[[X:.*]]: tensor<2xf32>, %[[ROWS:.*]]: tensor<4x2xf32>)
// CHECK:        %[[N:.*]] = "jaxpr.constant"() {value = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>}
// CHECK-NEXT:   %[[OUT:.*]] = "jaxpr.scan"(%[[W]], %[[X]], %[[ROWS]], %[[N]]) {jaxpr = @main.body, length = 4 : i64, num_carry = 1 : i64, num_consts = 1 : i64}
// CHECK-NEXT:   return %[[OUT]]
// CHECK:      func.func private @main.body(%[[V:.*]]: tensor<2x2xf32>, %[[C:.*]]: tensor<2xf32>, %[[ROW:.*]]: tensor<2xf32>, %[[I:.*]]: tensor<f32>)
// CHECK-NEXT:   %[[P:.*]] = "jaxpr.dot_general"(%[[V]], %[[C]])
// CHECK-NEXT:   %[[S:.*]] = "jaxpr.add"(%[[P]], %[[ROW]])
// CHECK-NEXT:   %[[T:.*]] = "jaxpr.tanh"(%[[S]])
// CHECK-NEXT:   %[[M:.*]] = "jaxpr.mul"(%[[T]], %[[I]])
// CHECK-NEXT:   return %[[M]]

// DEAR-NOT: jaxpr.scan

// EXEC: result: f32[2] = [3.8743{{[0-9]*}}, 3.2266{{[0-9]*}}]

// REMARK: reroll.mlir:{{[0-9]+}}:9: remark: [jaxpr-reroll] rolled 4 blocks of 4 ops into one loop with 1 carried value and 2 slices
func.func public @main(%w: tensor<2x2xf32>, %x: tensor<2xf32>, %rows: tensor<4x2xf32>) -> tensor<2xf32> {
  %s0 = "jaxpr.slice"(%rows) {limit_indices = array<i64: 1, 2>, start_indices = array<i64: 0, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %r0 = "jaxpr.squeeze"(%s0) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %n0 = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %p0 = "jaxpr.dot_general"(%w, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %a0 = "jaxpr.add"(%p0, %r0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %t0 = "jaxpr.tanh"(%a0) : (tensor<2xf32>) -> tensor<2xf32>
  %m0 = "jaxpr.mul"(%t0, %n0) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %s1 = "jaxpr.slice"(%rows) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 1, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %r1 = "jaxpr.squeeze"(%s1) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %n1 = "jaxpr.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %p1 = "jaxpr.dot_general"(%w, %m0) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %a1 = "jaxpr.add"(%p1, %r1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %t1 = "jaxpr.tanh"(%a1) : (tensor<2xf32>) -> tensor<2xf32>
  %m1 = "jaxpr.mul"(%t1, %n1) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %s2 = "jaxpr.slice"(%rows) {limit_indices = array<i64: 3, 2>, start_indices = array<i64: 2, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %r2 = "jaxpr.squeeze"(%s2) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %n2 = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %p2 = "jaxpr.dot_general"(%w, %m1) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %a2 = "jaxpr.add"(%p2, %r2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %t2 = "jaxpr.tanh"(%a2) : (tensor<2xf32>) -> tensor<2xf32>
  %m2 = "jaxpr.mul"(%t2, %n2) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %s3 = "jaxpr.slice"(%rows) {limit_indices = array<i64: 4, 2>, start_indices = array<i64: 3, 0>} : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %r3 = "jaxpr.squeeze"(%s3) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %n3 = "jaxpr.constant"() {value = dense<4.0> : tensor<f32>} : () -> tensor<f32>
  %p3 = "jaxpr.dot_general"(%w, %m2) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %a3 = "jaxpr.add"(%p3, %r3) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %t3 = "jaxpr.tanh"(%a3) : (tensor<2xf32>) -> tensor<2xf32>
  %m3 = "jaxpr.mul"(%t3, %n3) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %m3 : tensor<2xf32>
}
