// Reductions over a few elements are operations on slices.

// RUN: jaxmlir-opt --jaxpr-unroll-reductions='platform=cpu min-results=0' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-unroll-reductions='platform=tpu min-results=0' %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 4.0], [8.0, 16.0, -0.0]], [[1], [5], [3]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0, 4.0], [8.0, 16.0, -0.0]], [[1], [5], [3]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %s --entry=shared --args '[[[1, 2]], [[3, 4]], [[5, 7]]], [[[1, 2], [2, 2], [9, 0]]]' | FileCheck %s --check-prefix=SHARED
// RUN: jaxmlir-run %t --entry=shared --args '[[[1, 2]], [[3, 4]], [[5, 7]]], [[[1, 2], [2, 2], [9, 0]]]' | FileCheck %s --check-prefix=SHARED
// RUN: jaxmlir-opt --jaxpr-unroll-reductions='platform=cpu min-results=0' --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: unroll-reductions.mlir:{{[0-9]+}}:8: remark: [jaxpr-unroll-reductions] 'jaxpr.reduce_sum' over (1,) as operations on slices
// CHECK:      func.func public @main(%[[X:.*]]: tensor<2x3xf32>, %[[I:.*]]: tensor<3x1xi32>)
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 2, 1>, start_indices = array<i64: 0, 0>}
// CHECK-NEXT:   %[[A1:.*]] = "jaxpr.squeeze"(%[[A]]) {{.*}} -> tensor<2xf32>
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 0, 1>}
// CHECK-NEXT:   %[[B1:.*]] = "jaxpr.squeeze"(%[[B]])
// CHECK-NEXT:   %[[C:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 2, 3>, start_indices = array<i64: 0, 2>}
// CHECK-NEXT:   %[[C1:.*]] = "jaxpr.squeeze"(%[[C]])
// CHECK-NEXT:   %[[AB:.*]] = "jaxpr.add"(%[[A1]], %[[B1]])
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.add"(%[[AB]], %[[C1]])
// CHECK:        %[[MAX:.*]] = "jaxpr.max"
// CHECK:        "jaxpr.max"(%[[MAX]],

// A reduction over ten elements stays.
// CHECK:        "jaxpr.reduce_sum"

// Of differences that others use, too, slices are of what the differences are of.
// CHECK-LABEL: func.func private @shared(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<3x1x2xf32>, %[[Y:[a-z0-9]+]]: tensor<1x3x2xf32>)
// CHECK:         %[[D:.*]] = "jaxpr.sub"(%[[X]], %[[Y]])
// CHECK:         %[[X0:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 3, 1, 1>,
// CHECK:         %[[Y0:.*]] = "jaxpr.slice"(%[[Y]]) {limit_indices = array<i64: 1, 3, 1>,
// CHECK:         %[[D0:.*]] = "jaxpr.sub"({{.*}}) : (tensor<3x3xf32>, tensor<3x3xf32>)
// CHECK:         %[[Q0:.*]] = "jaxpr.square"(%[[D0]])
// CHECK:         %[[S:.*]] = "jaxpr.add"({{.*}}) : (tensor<3x3xf32>, tensor<3x3xf32>)
// CHECK:         return %[[S]], %[[D]]

// SHARED:      result[0]: f32[3,3] = {{\[}}[0.0, 1.0, 68.0],
// SHARED-NEXT:   [8.0, 5.0, 52.0],
// SHARED-NEXT:   [41.0, 34.0, 65.0]]

// EXEC: result[0]: f32[2] = [7.0, 24.0]
// EXEC: result[1]: i32[1] = [5]
// EXEC: result[2]: f32[] = 45.0
func.func public @main(%x: tensor<2x3xf32>, %i: tensor<3x1xi32>) -> (tensor<2xf32>, tensor<1xi32>, tensor<f32>) {
  %0 = "jaxpr.reduce_sum"(%x) {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %1 = "jaxpr.reduce_max"(%i) {axes = array<i64: 0>} : (tensor<3x1xi32>) -> tensor<1xi32>
  %2 = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 10>} : () -> tensor<10xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 0>} : (tensor<10xf32>) -> tensor<f32>
  return %0, %1, %3 : tensor<2xf32>, tensor<1xi32>, tensor<f32>
}

func.func private @shared(%x: tensor<3x1x2xf32>, %y: tensor<1x3x2xf32>) -> (tensor<3x3xf32>, tensor<3x3x2xf32>) {
  %0 = "jaxpr.sub"(%x, %y) : (tensor<3x1x2xf32>, tensor<1x3x2xf32>) -> tensor<3x3x2xf32>
  %1 = "jaxpr.square"(%0) : (tensor<3x3x2xf32>) -> tensor<3x3x2xf32>
  %2 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 2>} : (tensor<3x3x2xf32>) -> tensor<3x3xf32>
  return %2, %0 : tensor<3x3xf32>, tensor<3x3x2xf32>
}
