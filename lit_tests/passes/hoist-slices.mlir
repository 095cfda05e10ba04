// If few elements are selected, they are selected before the computation.

// RUN: jaxmlir-opt --jaxpr-hoist-slices %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-hoist-slices %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s > %t.before
// RUN: jaxmlir-run %t > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after
// RUN: jaxmlir-opt --jaxpr-hoist-slices --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// One column of sixty-four is selected: the sine and the scaling are computed for this column only.
// The scale has one number for each row, and is read as it is.
// REMARK: hoist-slices.mlir:{{[0-9]+}}:8: remark: [jaxpr-hoist-slices] moved 'jaxpr.slice' before 2 ops: 3 elements instead of 192
// CHECK-LABEL: func.func private @column
// CHECK-SAME:    (%[[X:.*]]: tensor<3x64xf32>, %[[S:.*]]: tensor<3x1xf32>)
// CHECK-NEXT:    %[[COLUMN:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 3, 64>, start_indices = array<i64: 0, 63>} : (tensor<3x64xf32>) -> tensor<3x1xf32>
// CHECK-NEXT:    %[[SIN:.*]] = "jaxpr.sin"(%[[COLUMN]]) : (tensor<3x1xf32>) -> tensor<3x1xf32>
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.mul"(%[[SIN]], %[[S]])
// CHECK-NEXT:    return %[[Y]]
func.func private @column(%x: tensor<3x64xf32>, %scale: tensor<3x1xf32>) -> tensor<3x1xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<3x64xf32>) -> tensor<3x64xf32>
  %1 = "jaxpr.mul"(%0, %scale) : (tensor<3x64xf32>, tensor<3x1xf32>) -> tensor<3x64xf32>
  %2 = "jaxpr.slice"(%1) {limit_indices = array<i64: 3, 64>, start_indices = array<i64: 0, 63>} : (tensor<3x64xf32>) -> tensor<3x1xf32>
  return %2 : tensor<3x1xf32>
}

// Elements out of bounds are filled at the end, because the cosine of the fill value is another value.
// CHECK-LABEL: func.func private @gathered
// CHECK:         %[[PART:.*]] = "jaxpr.gather"(%arg0, %arg1) {{.*}}mode = {GatherScatterMode = "CLIP"}
// CHECK:         %[[COS:.*]] = "jaxpr.cos"(%[[PART]]) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK:         "jaxpr.select_n"(%{{.*}}, %{{.*}}, %[[COS]])
func.func private @gathered(%x: tensor<64xf32>, %idx: tensor<2x1xi32>) -> tensor<2xf32> {
  %0 = "jaxpr.cos"(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = "jaxpr.gather"(%0, %idx) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = [], start_index_map = array<i64: 0>}}, fill_value = 7.0 : f64, mode = {GatherScatterMode = "FILL_OR_DROP"}, slice_sizes = array<i64: 1>} : (tensor<64xf32>, tensor<2x1xi32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// Half of the elements is not a small part: the exponential is computed for all elements.
// CHECK-LABEL: func.func private @half
// CHECK-NEXT:    "jaxpr.exp"(%arg0) : (tensor<64xf32>) -> tensor<64xf32>
func.func private @half(%x: tensor<64xf32>) -> tensor<32xf32> {
  %0 = "jaxpr.exp"(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = "jaxpr.slice"(%0) {limit_indices = array<i64: 32>, start_indices = array<i64: 0>} : (tensor<64xf32>) -> tensor<32xf32>
  return %1 : tensor<32xf32>
}

// EXEC:      result[0]: f32[3,1] =
// EXEC:      result[1]: f32[2] = [1.0, 7.0]
// EXEC:      result[2]: f32[32] =
func.func public @main() -> (tensor<3x1xf32>, tensor<2xf32>, tensor<32xf32>) {
  %n = "jaxpr.iota"() {dimension = 1 : i64, dtype = f32, shape = array<i64: 3, 64>} : () -> tensor<3x64xf32>
  %s = "jaxpr.constant"() {value = dense<[[1.0], [2.0], [4.0]]> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %v = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 64>} : () -> tensor<64xf32>
  %i = "jaxpr.constant"() {value = dense<[[0], [64]]> : tensor<2x1xi32>} : () -> tensor<2x1xi32>
  %0 = "jaxpr.jit"(%n, %s) {jaxpr = @column, name = "column"} : (tensor<3x64xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %1 = "jaxpr.jit"(%v, %i) {jaxpr = @gathered, name = "gathered"} : (tensor<64xf32>, tensor<2x1xi32>) -> tensor<2xf32>
  %2 = "jaxpr.jit"(%v) {jaxpr = @half, name = "half"} : (tensor<64xf32>) -> tensor<32xf32>
  return %0, %1, %2 : tensor<3x1xf32>, tensor<2xf32>, tensor<32xf32>
}
