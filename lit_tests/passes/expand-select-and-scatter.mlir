// The gradient of max-pooling as elementwise ops.

// RUN: jaxmlir-opt --jaxpr-expand-select-and-scatter=calls=inf %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-select-and-scatter=calls=inf %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --entry main --args '[[1.0, 2.0]], [[3.0, 3.0, 0.5, 1.0, 9.0], [1.0, 4.0, 1.0, 1.0, 9.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --entry main --args '[[1.0, 2.0]], [[3.0, 3.0, 0.5, 1.0, 9.0], [1.0, 4.0, 1.0, 1.0, 9.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %s --entry overlap --args '[1.0, 20.0, 300.0], [3.0, 5.0, 5.0, 1.0]' | FileCheck %s --check-prefix=OVERLAP
// RUN: jaxmlir-run %t --entry overlap --args '[1.0, 20.0, 300.0], [3.0, 5.0, 5.0, 1.0]' | FileCheck %s --check-prefix=OVERLAP
// RUN: jaxmlir-run %s --entry gather --args '[1.0, 2.0, 3.0, 4.0, 5.0], [3.0, 5.0, 5.0, 1.0, 7.0]' | FileCheck %s --check-prefix=GATHER
// RUN: jaxmlir-run %t --entry gather --args '[1.0, 2.0, 3.0, 4.0, 5.0], [3.0, 5.0, 5.0, 1.0, 7.0]' | FileCheck %s --check-prefix=GATHER
// RUN: jaxmlir-opt --jaxpr-expand-select-and-scatter=calls=inf --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-select-and-scatter.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-select-and-scatter] expanded windows of 2 x 2 into elementwise ops

// CHECK:      func.func public @main(%[[SOURCE:.*]]: tensor<1x2xf32>, %[[X:.*]]: tensor<2x5xf32>)
// CHECK:        %[[A:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 1, 3>, start_indices = array<i64: 0, 0>, strides = array<i64: 2, 2>}
// CHECK:        %[[B:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 1, 4>, start_indices = array<i64: 0, 1>, strides = array<i64: 2, 2>}
// CHECK:        %[[FIRST:.*]] = "jaxpr.ge"(%[[A]], %[[B]])
// CHECK:        "jaxpr.select_n"(%[[FIRST]], %[[B]], %[[A]])
// CHECK:        %[[SELECTED:.*]] = "jaxpr.eq"({{.*}} -> tensor<1x2x2x2xi1>
// CHECK:        %[[PARTS:.*]] = "jaxpr.select_n"(%[[SELECTED]],
// CHECK:        %[[WHOLE:.*]] = "jaxpr.reshape"(%[[PARTS]]) {{.*}} -> tensor<2x4xf32>
// CHECK:        %[[ALL:.*]] = "jaxpr.pad"(%[[WHOLE]],
// CHECK-NEXT:   return %[[ALL]] : tensor<2x5xf32>

// Of two equal elements, the first is selected; the last column is in no window.
// EXEC:      result: f32[2,5] = {{\[\[}}0.0, 0.0, 0.0, 2.0, 0.0],
// EXEC-NEXT: [0.0, 1.0, 0.0, 0.0, 0.0]]
func.func public @main(%source: tensor<1x2xf32>, %x: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %0 = "jaxpr.select_and_scatter_add"(%source, %x) {padding = [array<i64: 0, 0>, array<i64: 0, 0>], select_prim = {primitive = "ge"}, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>} : (tensor<1x2xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// Windows of 3 with strides of 2, the first of which begins outside the array: two windows may share an element.
// CHECK-LABEL: func.func public @overlap
// CHECK:         %[[A:.*]] = "jaxpr.select_n"({{.*}} -> tensor<4x2xf32>
// CHECK:         %[[B:.*]] = "jaxpr.select_n"({{.*}} -> tensor<4x2xf32>
// CHECK:         "jaxpr.add"(%[[A]], %[[B]])

// OVERLAP: result: f32[4] = [0.0, 21.0, 0.0, 300.0]
func.func public @overlap(%source: tensor<3xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.select_and_scatter_add"(%source, %x) {padding = [array<i64: 1, 2>], select_prim = {primitive = "ge"}, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>} : (tensor<3xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// The windows of one array select elements of another array.
// CHECK-LABEL: func.func public @gather
// CHECK-COUNT-10: "jaxpr.select_n"
// CHECK-NOT:     select_and_gather_add

// GATHER: result: f32[2] = [2.0, 5.0]
func.func public @gather(%t: tensor<5xf32>, %x: tensor<5xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.select_and_gather_add"(%t, %x) {base_dilation = array<i64: 1>, padding = [array<i64: 1, 0>], select_prim = {primitive = "ge"}, window_dilation = array<i64: 1>, window_dimensions = array<i64: 5>, window_strides = array<i64: 1>} : (tensor<5xf32>, tensor<5xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
