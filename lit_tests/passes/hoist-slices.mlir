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

// The rows of a stack are taken apart again: the loop takes the rows of both arrays, one of them only
// in part.  The rows of the product are needed as a whole.
// REMARK: hoist-slices.mlir:{{[0-9]+}}:8: remark: [jaxpr-hoist-slices] takes the rows of 2 arrays, which were joined before the loop
// CHECK-LABEL: func.func private @walk
// CHECK:         "jaxpr.scan"(%{{.*}}, %[[PRODUCT:.*]], %arg0, %arg1) {jaxpr = @step
func.func private @walk(%x: tensor<3x2xf32>, %y: tensor<3x2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.stack"(%x, %y) {axis = 1 : i64} : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2x2xf32>
  %1 = "jaxpr.mul"(%0, %0) : (tensor<3x2x2xf32>, tensor<3x2x2xf32>) -> tensor<3x2x2xf32>
  %2 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 2>} : (tensor<3x2x2xf32>) -> tensor<3x2xf32>
  %3 = "jaxpr.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %4 = "jaxpr.scan"(%3, %2, %0) {jaxpr = @step, length = 3 : i64, num_carry = 1 : i64, num_consts = 0 : i64} : (tensor<2xf32>, tensor<3x2xf32>, tensor<3x2x2xf32>) -> tensor<2xf32>
  return %4 : tensor<2xf32>
}

// CHECK-LABEL: func.func private @step
// CHECK-SAME:    (%[[S:.*]]: tensor<2xf32>, %[[P:.*]]: tensor<2xf32>, %[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<2xf32>)
// CHECK:         "jaxpr.slice"(%[[Y]]) {limit_indices = array<i64: 2>, start_indices = array<i64: 1>{{.*}}} : (tensor<2xf32>) -> tensor<1xf32>
func.func private @step(%s: tensor<2xf32>, %p: tensor<2xf32>, %row: tensor<2x2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.slice"(%row) {limit_indices = array<i64: 1, 2>, start_indices = array<i64: 0, 0>} : (tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = "jaxpr.squeeze"(%0) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.slice"(%row) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 1, 1>} : (tensor<2x2xf32>) -> tensor<1x1xf32>
  %3 = "jaxpr.squeeze"(%2) {dimensions = array<i64: 0, 1>} : (tensor<1x1xf32>) -> tensor<f32>
  %4 = "jaxpr.mul"(%s, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = "jaxpr.add"(%4, %3) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %6 = "jaxpr.add"(%5, %p) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %6 : tensor<2xf32>
}

// EXEC:      result[0]: f32[3,1] =
// EXEC:      result[1]: f32[2] = [1.0, 7.0]
// EXEC:      result[2]: f32[32] =
// EXEC:      result[3]: f32[2] =
func.func public @main() -> (tensor<3x1xf32>, tensor<2xf32>, tensor<32xf32>, tensor<2xf32>) {
  %n = "jaxpr.iota"() {dimension = 1 : i64, dtype = f32, shape = array<i64: 3, 64>} : () -> tensor<3x64xf32>
  %s = "jaxpr.constant"() {value = dense<[[1.0], [2.0], [4.0]]> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %v = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 64>} : () -> tensor<64xf32>
  %i = "jaxpr.constant"() {value = dense<[[0], [64]]> : tensor<2x1xi32>} : () -> tensor<2x1xi32>
  %0 = "jaxpr.jit"(%n, %s) {jaxpr = @column, name = "column"} : (tensor<3x64xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %1 = "jaxpr.jit"(%v, %i) {jaxpr = @gathered, name = "gathered"} : (tensor<64xf32>, tensor<2x1xi32>) -> tensor<2xf32>
  %2 = "jaxpr.jit"(%v) {jaxpr = @half, name = "half"} : (tensor<64xf32>) -> tensor<32xf32>
  %a = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 3, 2>} : () -> tensor<3x2xf32>
  %b = "jaxpr.iota"() {dimension = 1 : i64, dtype = f32, shape = array<i64: 3, 2>} : () -> tensor<3x2xf32>
  %3 = "jaxpr.jit"(%a, %b) {jaxpr = @walk, name = "walk"} : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<3x1xf32>, tensor<2xf32>, tensor<32xf32>, tensor<2xf32>
}
