// Scaled deviations from a mean add up to zero: they are left out of sums.

// RUN: jaxmlir-opt --jaxpr-zero-sums %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-zero-sums %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[1.0, 2.0], [3.0, 4.0]], [2.0, 4.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0], [3.0, 4.0]], [2.0, 4.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-zero-sums --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The derivative of a normalization of the columns: the mean is of the summed dimension, along which
// the factor is constant.
// REMARK: zero-sums.mlir:{{[0-9]+}}:{{[0-9]+}}: remark: [jaxpr-zero-sums] left out 1 term: deviations from a mean
// REMARK: zero-sums.mlir:{{[0-9]+}}:{{[0-9]+}}: remark: [jaxpr-zero-sums] left out 1 term: deviations from a mean
// REMARK-NOT: remark
// CHECK-LABEL: func.func public @columns
// CHECK:         %[[OTHER:.*]] = "jaxpr.square"(%arg0)
// CHECK:         %[[NEG:.*]] = "jaxpr.neg"(%[[OTHER]])
// CHECK-NEXT:    %[[SUM:.*]] = "jaxpr.reduce_sum"(%[[NEG]]) {axes = array<i64: 0>}
// CHECK:         return %{{.*}}, %[[SUM]]
// EXEC:          result[0]: f32[2,2] =
// EXEC:          result[1]: f32[2] = [-10.0, -20.0]
// EXEC:          result[2]: f32[] = 0.0
func.func public @columns(%x: tensor<2x2xf32>, %c: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<f32>) {
  %half = "jaxpr.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.mul"(%half, %0) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 1, 2>} : (tensor<2xf32>) -> tensor<1x2xf32>
  %3 = "jaxpr.sub"(%x, %2) : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %4 = "jaxpr.broadcast_in_dim"(%c) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 2, 2>} : (tensor<2xf32>) -> tensor<2x2xf32>
  %5 = "jaxpr.mul"(%4, %3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %6 = "jaxpr.square"(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %7 = "jaxpr.add_any"(%6, %5) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %8 = "jaxpr.neg"(%7) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %9 = "jaxpr.reduce_sum"(%8) {axes = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<2xf32>
  %10 = "jaxpr.reduce_sum"(%3) {axes = array<i64: 0, 1>} : (tensor<2x2xf32>) -> tensor<f32>
  return %7, %9, %10 : tensor<2x2xf32>, tensor<2xf32>, tensor<f32>
}

// The factor differs along the dimension of the mean; the mean is of the other dimension.
// CHECK-LABEL: func.func private @others
// CHECK:         %[[DEVIATION:.*]] = "jaxpr.sub"
// CHECK-NEXT:    %[[SCALED:.*]] = "jaxpr.mul"(%[[DEVIATION]], %arg1)
// CHECK-NEXT:    "jaxpr.reduce_sum"(%[[SCALED]])
// CHECK-NEXT:    "jaxpr.reduce_sum"(%[[DEVIATION]])
func.func private @others(%x: tensor<2x2xf32>, %c: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %half = "jaxpr.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.mul"(%half, %0) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 1, 2>} : (tensor<2xf32>) -> tensor<1x2xf32>
  %3 = "jaxpr.sub"(%x, %2) : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %4 = "jaxpr.mul"(%3, %c) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %5 = "jaxpr.reduce_sum"(%4) {axes = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<2xf32>
  %6 = "jaxpr.reduce_sum"(%3) {axes = array<i64: 1>} : (tensor<2x2xf32>) -> tensor<2xf32>
  return %5, %6 : tensor<2xf32>, tensor<2xf32>
}
