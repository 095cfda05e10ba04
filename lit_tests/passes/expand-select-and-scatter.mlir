// The gradient of max-pooling, element by element, where windows do not overlap.

// RUN: jaxmlir-opt --jaxpr-expand-select-and-scatter=platform=cpu %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-expand-select-and-scatter=platform=tpu %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[[1.0, 2.0]], [[3.0, 3.0, 0.5, 1.0, 9.0], [1.0, 4.0, 1.0, 1.0, 9.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 2.0]], [[3.0, 3.0, 0.5, 1.0, 9.0], [1.0, 4.0, 1.0, 1.0, 9.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-expand-select-and-scatter=platform=cpu --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-select-and-scatter.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-select-and-scatter] windows of 2 x 2 element by element

// CHECK:      func.func public @main(%[[SOURCE:.*]]: tensor<1x2xf32>, %[[X:.*]]: tensor<2x5xf32>)
// CHECK:        %[[A:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 2, 4>, start_indices = array<i64: 0, 0>, strides = array<i64: 2, 2>}
// CHECK:        %[[B:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 2, 4>, start_indices = array<i64: 0, 1>, strides = array<i64: 2, 2>}
// CHECK:        %[[FIRST:.*]] = "jaxpr.ge"(%[[A]], %[[B]])
// CHECK:        "jaxpr.select_n"(%[[FIRST]], %[[B]], %[[A]])
// CHECK:        %[[SELECTED:.*]] = "jaxpr.eq"({{.*}} -> tensor<1x2x2x2xi1>
// CHECK:        %[[PARTS:.*]] = "jaxpr.select_n"(%[[SELECTED]],
// CHECK:        %[[WHOLE:.*]] = "jaxpr.reshape"(%[[PARTS]]) {{.*}} -> tensor<2x4xf32>
// CHECK:        %[[ALL:.*]] = "jaxpr.pad"(%[[WHOLE]],
// CHECK-NEXT:   return %[[ALL]] : tensor<2x5xf32>

// The first of two that are equal is selected; the last column is in no window.
// EXEC:      result: f32[2,5] = {{\[\[}}0.0, 0.0, 0.0, 2.0, 0.0],
// EXEC-NEXT: [0.0, 1.0, 0.0, 0.0, 0.0]]
func.func public @main(%source: tensor<1x2xf32>, %x: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %0 = "jaxpr.select_and_scatter_add"(%source, %x) {padding = [array<i64: 0, 0>, array<i64: 0, 0>], select_prim = {primitive = "ge"}, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>} : (tensor<1x2xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
