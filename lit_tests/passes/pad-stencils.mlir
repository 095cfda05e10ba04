// An array that is read at shifted indices is stored with a margin around it.

// RUN: jaxmlir-opt --jaxpr-pad-stencils='min-elements=0 margin=2' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-pad-stencils='min-elements=0 margin=2' %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt --target=tpu --jaxpr-pad-stencils='min-elements=0 margin=2' %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 4.0, 8.0], [1.0, 2.0, 4.0, 8.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1.0, 2.0, 4.0, 8.0], [1.0, 2.0, 4.0, 8.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-pad-stencils='min-elements=0 margin=2' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// Both neighbours on a circle: `roll(x, 1) + roll(x, -1)`.
// REMARK: pad-stencils.mlir:{{[0-9]+}}:8: remark: [jaxpr-pad-stencils] replaced 2 shifts of an array by slices of a copy with a halo of 1 + 1 elements
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK:         %[[WRAPPED:.*]] = "jaxpr.concatenate"(%{{.*}}, %[[X]], %{{.*}}) {{.*}} -> tensor<6xf32>
// CHECK-NEXT:    %[[WIDE:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[WRAPPED]])
// CHECK-NEXT:    %[[LEFT:.*]] = "jaxpr.slice"(%[[WIDE]]) {limit_indices = array<i64: 4>, start_indices = array<i64: 0>}
// CHECK-NEXT:    %[[RIGHT:.*]] = "jaxpr.slice"(%[[WIDE]]) {limit_indices = array<i64: 6>, start_indices = array<i64: 2>}
// CHECK-NEXT:    %[[SUM:.*]] = "jaxpr.add"(%[[LEFT]], %[[RIGHT]])

// Both neighbours on a line, with zeros around it.
// CHECK:         %[[PADDED:.*]] = "jaxpr.pad"(%[[X]], %{{.*}}) {padding_config = [array<i64: 1, 1, 0>]}
// CHECK-NEXT:    %[[WIDE:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[PADDED]])
// CHECK-NEXT:    %[[LEFT:.*]] = "jaxpr.slice"(%[[WIDE]]) {limit_indices = array<i64: 4>, start_indices = array<i64: 0>}
// CHECK-NEXT:    %[[RIGHT:.*]] = "jaxpr.slice"(%[[WIDE]]) {limit_indices = array<i64: 6>, start_indices = array<i64: 2>}

// The transpose of a roll, a sum of two parts, is a roll; a single roll is not stored.
// CHECK:         %[[FIRST:.*]] = "jaxpr.slice"(%[[Y]])
// CHECK-NEXT:    %[[SECOND:.*]] = "jaxpr.slice"(%[[Y]])
// CHECK-NEXT:    %[[ROLL:.*]] = "jaxpr.concatenate"(%[[FIRST]], %[[SECOND]])
// CHECK-NEXT:    "jaxpr.add_any"(%[[Y]], %[[ROLL]])
// CHECK-NOT:     "jaxpr.pad"

// EXEC: result[0]: f32[4] = [10.0, 5.0, 10.0, 5.0]
// EXEC: result[1]: f32[4] = [2.0, 5.0, 10.0, 4.0]
// EXEC: result[2]: f32[4] = [3.0, 6.0, 12.0, 9.0]
func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4>, start_indices = array<i64: 3>} : (tensor<4xf32>) -> tensor<1xf32>
  %1 = "jaxpr.slice"(%x) {limit_indices = array<i64: 3>, start_indices = array<i64: 0>} : (tensor<4xf32>) -> tensor<3xf32>
  %2 = "jaxpr.concatenate"(%0, %1) {dimension = 0 : i64} : (tensor<1xf32>, tensor<3xf32>) -> tensor<4xf32>
  %3 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4>, start_indices = array<i64: 1>} : (tensor<4xf32>) -> tensor<3xf32>
  %4 = "jaxpr.slice"(%x) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<4xf32>) -> tensor<1xf32>
  %5 = "jaxpr.concatenate"(%3, %4) {dimension = 0 : i64} : (tensor<3xf32>, tensor<1xf32>) -> tensor<4xf32>
  %6 = "jaxpr.add"(%2, %5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %7 = "jaxpr.pad"(%x, %zero) {padding_config = [array<i64: 1, -1, 0>]} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %8 = "jaxpr.pad"(%3, %zero) {padding_config = [array<i64: 0, 1, 0>]} : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  %9 = "jaxpr.add"(%7, %8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

  %10:2 = "jaxpr.split"(%y) {axis = 0 : i64, sizes = array<i64: 1, 3>} : (tensor<4xf32>) -> (tensor<1xf32>, tensor<3xf32>)
  %11 = "jaxpr.pad"(%10#1, %zero) {padding_config = [array<i64: 0, 1, 0>]} : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  %12 = "jaxpr.add_any"(%y, %11) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %13 = "jaxpr.pad"(%10#0, %zero) {padding_config = [array<i64: 3, 0, 0>]} : (tensor<1xf32>, tensor<f32>) -> tensor<4xf32>
  %14 = "jaxpr.add_any"(%12, %13) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %6, %9, %14 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
