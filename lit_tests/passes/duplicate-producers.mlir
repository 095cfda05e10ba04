// Large values are computed in each kernel that reads them, where a program needs much memory.

// RUN: jaxmlir-opt --jaxpr-duplicate-producers='calls=inf min-peak=0 min-bytes=0' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-duplicate-producers='calls=inf min-peak=0 min-bytes=0' %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt --target=tpu --jaxpr-duplicate-producers='calls=inf min-peak=0 min-bytes=0' %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]], [8.0, 8.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]], [8.0, 8.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-duplicate-producers='calls=inf min-peak=0 min-bytes=0' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The sum has to be there before it is divided by. Both kernels compute the exponentials, the second of what is small, behind a
// barrier or selected by a boolean that XLA does not know, so that it does not take the two for one.
// REMARK: duplicate-producers.mlir:{{[0-9]+}}:8: remark: [jaxpr-duplicate-producers] computed 2 times: 64 bytes are not stored
// CHECK:      func.func public @main(%[[X:.*]]: tensor<2x8xf32>, %[[M:.*]]: tensor<2xf32>)
// CHECK-NEXT:   %[[WIDE:.*]] = "jaxpr.reshape"(%[[M]])
// CHECK-NEXT:   %[[D:.*]] = "jaxpr.sub"(%[[X]], %[[WIDE]])
// CHECK-NEXT:   %[[E:.*]] = "jaxpr.exp"(%[[D]])
// CHECK-NEXT:   %[[S:.*]] = "jaxpr.reduce_sum"(%[[E]]) {axes = array<i64: 1>}
// CHECK-NEXT:   %[[T:.*]] = "jaxpr.reshape"(%[[S]])
// CHECK:        %[[AGAIN:[0-9]+]]{{(:2)?}} = "jaxpr.{{select_n|optimization_barrier}}"({{.*}}%[[WIDE]])
// CHECK-NEXT:   %[[D2:.*]] = "jaxpr.sub"(%[[X]], %[[AGAIN]]{{(#0)?}})
// CHECK-NEXT:   %[[E2:.*]] = "jaxpr.exp"(%[[D2]])
// CHECK-NEXT:   %[[P:.*]] = "jaxpr.div"(%[[E2]], %[[T]])
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.reduce_max"(%[[P]])

// A product reads its operand from memory: the sum does so, too.
// CHECK:        %[[U:.*]] = "jaxpr.tanh"(%[[X]])
// CHECK-NEXT:   "jaxpr.reduce_sum"(%[[U]])
// CHECK-NEXT:   "jaxpr.dot_general"(%[[U]], %[[X]])
// CHECK-NOT:    "jaxpr.tanh"

// EXEC: result[0]: f32[2] = [0.63
// EXEC: result[1]: f32[2] = [7.7
// EXEC: result[2]: f32[2,2] =
func.func public @main(%x: tensor<2x8xf32>, %m: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>) {
  %0 = "jaxpr.reshape"(%m) {new_sizes = array<i64: 2, 1>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %1 = "jaxpr.sub"(%x, %0) : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %2 = "jaxpr.exp"(%1) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %4 = "jaxpr.reshape"(%3) {new_sizes = array<i64: 2, 1>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %5 = "jaxpr.div"(%2, %4) : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %6 = "jaxpr.reduce_max"(%5) {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %7 = "jaxpr.tanh"(%x) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %8 = "jaxpr.reduce_sum"(%7) {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %9 = "jaxpr.dot_general"(%7, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x2xf32>
  return %6, %8, %9 : tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>
}
