// The summed value is stored, if XLA would otherwise store another value for the sum.

// RUN: jaxmlir-opt --jaxpr-materialize-shared %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=cuda --jaxpr-materialize-shared %s | FileCheck %s --check-prefix=CUDA
// RUN: jaxmlir-run %s | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-materialize-shared --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// CUDA-NOT: {{fence|optimization_barrier}}

// The returned result recomputes the difference; for the sum's kernel, XLA would store the difference.
// REMARK: materialize-shared-sums.mlir:{{[0-9]+}}:8: remark: [jaxpr-materialize-shared] stored because XLA would otherwise store values that it is computed from, for the sum that reads it
// CHECK-LABEL: func.func private @shared
// CHECK-NEXT:    %[[D:.*]] = "jaxpr.sub"
// CHECK-NEXT:    %[[PRODUCT:.*]] = "jaxpr.mul"(%[[D]], %{{.*}})
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[PRODUCT]])
// CHECK-NEXT:    %[[SUM:.*]] = "jaxpr.reduce_sum"(%[[STORED]])
// CHECK-NEXT:    %[[NEG:.*]] = "jaxpr.neg"(%[[D]])
// CHECK-NEXT:    return %[[SUM]], %[[NEG]]
func.func private @shared(%x: tensor<2048x64xf32>, %y: tensor<2048x64xf32>) -> (tensor<64xf32>, tensor<2048x64xf32>) {
  %0 = "jaxpr.sub"(%x, %y) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %1 = "jaxpr.mul"(%0, %y) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %2 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %3 = "jaxpr.neg"(%0) : (tensor<2048x64xf32>) -> tensor<2048x64xf32>
  return %2, %3 : tensor<64xf32>, tensor<2048x64xf32>
}

// For the sum's kernel, XLA would also store the row that is broadcast for two ops.
// CHECK-LABEL: func.func private @spread
// CHECK-NEXT:    %[[P:.*]] = "jaxpr.mul"
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[P]])
// CHECK-NEXT:    %[[MAX:.*]] = "jaxpr.reduce_max"(%[[STORED]])
func.func private @spread(%x: tensor<2048x64xf32>, %row: tensor<1x64xf32>) -> (tensor<2048xf32>, tensor<2048x64xf32>) {
  %0 = "jaxpr.mul"(%x, %row) : (tensor<2048x64xf32>, tensor<1x64xf32>) -> tensor<2048x64xf32>
  %1 = "jaxpr.reduce_max"(%0) {axes = array<i64: 1>} : (tensor<2048x64xf32>) -> tensor<2048xf32>
  %2 = "jaxpr.add"(%x, %row) : (tensor<2048x64xf32>, tensor<1x64xf32>) -> tensor<2048x64xf32>
  return %1, %2 : tensor<2048xf32>, tensor<2048x64xf32>
}

// XLA stores a result and an exponential with two users anyway. It does not store a value that only the
// sum reads. It stores a value that two sums read once for both. A sum of squares is as fast.
// CHECK-LABEL: func.func private @left_alone
// CHECK-NOT:     {{fence|optimization_barrier}}
// CHECK:         return
func.func private @left_alone(%x: tensor<2048x64xf32>, %y: tensor<2048x64xf32>) -> (tensor<2048x64xf32>, tensor<2048x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<2048x64xf32>) {
  %sum = "jaxpr.add"(%x, %y) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %0 = "jaxpr.mul"(%sum, %x) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %1 = "jaxpr.reduce_sum"(%0) {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %exp = "jaxpr.exp"(%x) : (tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %2 = "jaxpr.mul"(%exp, %y) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %4 = "jaxpr.neg"(%exp) : (tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %alone = "jaxpr.sub"(%x, %y) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %5 = "jaxpr.mul"(%alone, %y) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %6 = "jaxpr.reduce_sum"(%5) {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %both = "jaxpr.sub"(%y, %x) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %7 = "jaxpr.mul"(%both, %x) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %8 = "jaxpr.reduce_sum"(%7) {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %9 = "jaxpr.neg"(%both) : (tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %10 = "jaxpr.reduce_sum"(%9) {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %square = "jaxpr.add"(%y, %y) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %11 = "jaxpr.mul"(%square, %square) : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
  %12 = "jaxpr.reduce_sum"(%11) {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %13 = "jaxpr.neg"(%square) : (tensor<2048x64xf32>) -> tensor<2048x64xf32>
  return %sum, %4, %1, %3, %6, %8, %10, %12, %13 : tensor<2048x64xf32>, tensor<2048x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<2048x64xf32>
}

// EXEC:      result[0]: f32[] = -6144.0
// EXEC-NEXT: result[1]: f32[] = 6.0
func.func public @main() -> (tensor<f32>, tensor<f32>) {
  %two = "jaxpr.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %three = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %x = "jaxpr.broadcast_in_dim"(%two) {broadcast_dimensions = [], shape = array<i64: 2048, 64>} : (tensor<f32>) -> tensor<2048x64xf32>
  %y = "jaxpr.broadcast_in_dim"(%three) {broadcast_dimensions = [], shape = array<i64: 2048, 64>} : (tensor<f32>) -> tensor<2048x64xf32>
  %row = "jaxpr.broadcast_in_dim"(%three) {broadcast_dimensions = [], shape = array<i64: 1, 64>} : (tensor<f32>) -> tensor<1x64xf32>
  %0, %1 = "jaxpr.jit"(%x, %y) {jaxpr = @shared, name = "shared"} : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> (tensor<64xf32>, tensor<2048x64xf32>)
  %2, %3 = "jaxpr.jit"(%x, %row) {jaxpr = @spread, name = "spread"} : (tensor<2048x64xf32>, tensor<1x64xf32>) -> (tensor<2048xf32>, tensor<2048x64xf32>)
  %4:9 = "jaxpr.jit"(%x, %y) {jaxpr = @left_alone, name = "left_alone"} : (tensor<2048x64xf32>, tensor<2048x64xf32>) -> (tensor<2048x64xf32>, tensor<2048x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<2048x64xf32>)
  %5 = "jaxpr.reduce_max"(%0) {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  %6 = "jaxpr.reduce_max"(%2) {axes = array<i64: 0>} : (tensor<2048xf32>) -> tensor<f32>
  return %5, %6 : tensor<f32>, tensor<f32>
}
