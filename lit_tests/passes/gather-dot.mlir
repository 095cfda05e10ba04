// Rows are selected before or after a matrix product, whichever costs less.

// RUN: jaxmlir-opt --jaxpr-gather-dot='calls=inf' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-gather-dot='calls=inf' %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s > %t.before
// RUN: jaxmlir-run %t > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after
// RUN: jaxmlir-opt --jaxpr-gather-dot='calls=inf' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// There are more edges than nodes, so the product is computed for the nodes.
// REMARK-DAG: gather-dot.mlir:{{[0-9]+}}:8: remark: [jaxpr-gather-dot] product ab,bc,d<a->dc as ((0 1) 2): 16.4 kFLOP and 136 kB instead of 524 kFLOP and 263 kB
// CHECK-LABEL: func.func private @edges
// CHECK-SAME:    (%[[X:.*]]: tensor<32x16xf32>, %[[W:.*]]: tensor<16x16xf32>, %[[I:.*]]: tensor<1024x1xi32>)
// CHECK-NEXT:    %[[XW:.*]] = "jaxpr.dot_general"(%[[X]], %[[W]])
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.gather"(%[[XW]], %[[I]])
// CHECK-NEXT:    return %[[Y]]
func.func private @edges(%x: tensor<32x16xf32>, %w: tensor<16x16xf32>, %idx: tensor<1024x1xi32>) -> tensor<1024x16xf32> {
  %0 = "jaxpr.gather"(%x, %idx) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = array<i64: 1>, start_index_map = array<i64: 0>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1, 16>} : (tensor<32x16xf32>, tensor<1024x1xi32>) -> tensor<1024x16xf32>
  %1 = "jaxpr.dot_general"(%0, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<1024x16xf32>, tensor<16x16xf32>) -> tensor<1024x16xf32>
  return %1 : tensor<1024x16xf32>
}

// Only one row is used, so only this row is multiplied.
// CHECK-LABEL: func.func private @last
// CHECK-SAME:    (%[[X:.*]]: tensor<1024x16xf32>, %[[W:.*]]: tensor<16x16xf32>)
// CHECK-NEXT:    %[[ROW:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 1024, 16>, start_indices = array<i64: 1023, 0>}
// CHECK:         "jaxpr.dot_general"
func.func private @last(%x: tensor<1024x16xf32>, %w: tensor<16x16xf32>) -> tensor<1x16xf32> {
  %0 = "jaxpr.dot_general"(%x, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<1024x16xf32>, tensor<16x16xf32>) -> tensor<1024x16xf32>
  %1 = "jaxpr.slice"(%0) {limit_indices = array<i64: 1024, 16>, start_indices = array<i64: 1023, 0>} : (tensor<1024x16xf32>) -> tensor<1x16xf32>
  return %1 : tensor<1x16xf32>
}

// All but the last row: slicing @x first saves only one operation in 256. But it copies a part of @x instead
// of a part of the product, which also takes fewer bytes. So slicing first pays, whichever of the two is expensive.
// CHECK-LABEL: func.func private @all_but_the_last
// CHECK-SAME:    (%[[X:.*]]: tensor<256x16xf32>, %[[W:.*]]: tensor<16x512xf32>)
// CHECK-NEXT:    %[[ROWS:.*]] = "jaxpr.slice"(%[[X]])
// CHECK-NEXT:    "jaxpr.dot_general"(%[[ROWS]], %[[W]])
func.func private @all_but_the_last(%x: tensor<256x16xf32>, %w: tensor<16x512xf32>) -> tensor<255x512xf32> {
  %0 = "jaxpr.dot_general"(%x, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<256x16xf32>, tensor<16x512xf32>) -> tensor<256x512xf32>
  %1 = "jaxpr.slice"(%0) {limit_indices = array<i64: 255, 512>, start_indices = array<i64: 0, 0>} : (tensor<256x512xf32>) -> tensor<255x512xf32>
  return %1 : tensor<255x512xf32>
}

// The gradient in w of @edges: the cotangents of a node's edges are added up first, so a gather
// becomes a scatter.
// CHECK-LABEL: func.func private @weights
// CHECK-SAME:    (%[[X:.*]]: tensor<32x16xf32>, %[[CT:.*]]: tensor<1024x16xf32>, %[[I:.*]]: tensor<1024x1xi32>)
// CHECK:         %[[SUM:.*]] = "jaxpr.scatter_add"(%{{.*}}, %[[I]], %[[CT]])
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.dot_general"(%[[X]], %[[SUM]])
// CHECK-NEXT:    return %[[Y]]
func.func private @weights(%x: tensor<32x16xf32>, %ct: tensor<1024x16xf32>, %idx: tensor<1024x1xi32>) -> tensor<16x16xf32> {
  %0 = "jaxpr.gather"(%x, %idx) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = array<i64: 1>, start_index_map = array<i64: 0>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1, 16>} : (tensor<32x16xf32>, tensor<1024x1xi32>) -> tensor<1024x16xf32>
  %1 = "jaxpr.dot_general"(%0, %ct) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<1024x16xf32>, tensor<1024x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// A gather that fills elements out of bounds with NaN has no transpose, and stays.
// CHECK-LABEL: func.func private @filled
// CHECK-NEXT:    %[[G:.*]] = "jaxpr.gather"
// CHECK-NEXT:    "jaxpr.dot_general"(%[[G]]
func.func private @filled(%x: tensor<32x16xf32>, %ct: tensor<1024x16xf32>, %idx: tensor<1024x1xi32>) -> tensor<16x16xf32> {
  %0 = "jaxpr.gather"(%x, %idx) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = array<i64: 1>, start_index_map = array<i64: 0>}}, fill_value = 0x7FF8000000000000 : f64, mode = {GatherScatterMode = "FILL_OR_DROP"}, slice_sizes = array<i64: 1, 16>} : (tensor<32x16xf32>, tensor<1024x1xi32>) -> tensor<1024x16xf32>
  %1 = "jaxpr.dot_general"(%0, %ct) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<1024x16xf32>, tensor<1024x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// A one-hot matrix selects rows of a table; a number that is not a row index gives zeros.
// CHECK-LABEL: func.func private @words
// CHECK-SAME:    (%[[T:.*]]: tensor<32x16xf32>, %[[W:.*]]: tensor<8xi32>)
// CHECK-NEXT:    %[[I:.*]] = "jaxpr.reshape"(%[[W]]) {new_sizes = array<i64: 8, 1>}
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.gather"(%[[T]], %[[I]]) {{.*}}fill_value = 0 {{.*}}mode = {GatherScatterMode = "FILL_OR_DROP"}
// CHECK-NEXT:    return %[[Y]]
func.func private @words(%table: tensor<32x16xf32>, %words: tensor<8xi32>) -> tensor<8x16xf32> {
  %0 = "jaxpr.broadcast_in_dim"(%words) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 8, 1>} : (tensor<8xi32>) -> tensor<8x1xi32>
  %1 = "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 1, 32>} : () -> tensor<1x32xi32>
  %2 = "jaxpr.eq"(%0, %1) : (tensor<8x1xi32>, tensor<1x32xi32>) -> tensor<8x32xi1>
  %3 = "jaxpr.convert_element_type"(%2) {new_dtype = f32} : (tensor<8x32xi1>) -> tensor<8x32xf32>
  %4 = "jaxpr.dot_general"(%3, %table) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return %4 : tensor<8x16xf32>
}

// The cotangent of [x, h] is the sum of two gates' products, and only the part of h is used. So both
// products multiply only the rows of the weights that belong to h.
// REMARK-DAG: gather-dot.mlir:{{[0-9]+}}:10: remark: [jaxpr-gather-dot] moved the slice before the products: they compute 128 of 384 elements
// CHECK-LABEL: func.func private @gates
// CHECK-SAME:    (%[[D:.*]]: tensor<8x64xf32>, %[[U:.*]]: tensor<48x64xf32>, %[[E:.*]]: tensor<8x64xf32>, %[[V:.*]]: tensor<48x64xf32>)
// CHECK-NEXT:    %[[UH:.*]] = "jaxpr.slice"(%[[U]]) {limit_indices = array<i64: 48, 64>, start_indices = array<i64: 32, 0>}
// CHECK-NEXT:    %[[DU:.*]] = "jaxpr.dot_general"(%[[D]], %[[UH]])
// CHECK-NEXT:    %[[VH:.*]] = "jaxpr.slice"(%[[V]]) {limit_indices = array<i64: 48, 64>, start_indices = array<i64: 32, 0>}
// CHECK-NEXT:    %[[EV:.*]] = "jaxpr.dot_general"(%[[E]], %[[VH]])
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.add_any"(%[[DU]], %[[EV]]) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK-NEXT:    return %[[Y]]
func.func private @gates(%d: tensor<8x64xf32>, %u: tensor<48x64xf32>, %e: tensor<8x64xf32>, %v: tensor<48x64xf32>) -> tensor<8x16xf32> {
  %0 = "jaxpr.dot_general"(%d, %u) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<8x64xf32>, tensor<48x64xf32>) -> tensor<8x48xf32>
  %1 = "jaxpr.dot_general"(%e, %v) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<8x64xf32>, tensor<48x64xf32>) -> tensor<8x48xf32>
  %2 = "jaxpr.add_any"(%0, %1) : (tensor<8x48xf32>, tensor<8x48xf32>) -> tensor<8x48xf32>
  %3:2 = "jaxpr.split"(%2) {axis = 1 : i64, sizes = array<i64: 32, 16>} : (tensor<8x48xf32>) -> (tensor<8x32xf32>, tensor<8x16xf32>)
  return %3#1 : tensor<8x16xf32>
}

// Both parts are used: one product computes both.
// CHECK-LABEL: func.func private @both_parts
// CHECK-NEXT:    %[[DU:.*]] = "jaxpr.dot_general"(%{{.*}}) {{.*}} -> tensor<8x48xf32>
// CHECK-NEXT:    "jaxpr.split"(%[[DU]])
func.func private @both_parts(%d: tensor<8x64xf32>, %u: tensor<48x64xf32>) -> (tensor<8x32xf32>, tensor<8x16xf32>) {
  %0 = "jaxpr.dot_general"(%d, %u) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<8x64xf32>, tensor<48x64xf32>) -> tensor<8x48xf32>
  %1:2 = "jaxpr.split"(%0) {axis = 1 : i64, sizes = array<i64: 32, 16>} : (tensor<8x48xf32>) -> (tensor<8x32xf32>, tensor<8x16xf32>)
  return %1#0, %1#1 : tensor<8x32xf32>, tensor<8x16xf32>
}

// Row i of x is i, and index e is e, clipped to 31: 31 for 993 of 1024 edges. In @gates, row i times
// row j is 64 i j, and row 32 is the first row that is used.
// EXEC:      result[0]: f32[] = 16.0
// EXEC-NEXT: result[1]: f32[] = 16368.0
// EXEC-NEXT: result[2]: f32[] = 31248.0
// EXEC-NEXT: result[3]: f32[8,16] = {{\[\[}}7.0, 7.0, {{.*}}],
// EXEC-NEXT:   [0.0, 0.0, {{.*}}],
// EXEC-NEXT:   [31.0, 31.0, {{.*}}],
// EXEC-NEXT:   [0.0, 0.0, {{.*}}],
// EXEC-NEXT:   [0.0, 0.0, {{.*}}],
// EXEC:      result[4]: f32[] = 4096.0
func.func public @main() -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<8x16xf32>, tensor<f32>) {
  %x = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 32, 16>} : () -> tensor<32x16xf32>
  %big = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 1024, 16>} : () -> tensor<1024x16xf32>
  %one = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %w = "jaxpr.broadcast_in_dim"(%one) {broadcast_dimensions = [], shape = array<i64: 16, 16>} : (tensor<f32>) -> tensor<16x16xf32>
  %ct = "jaxpr.broadcast_in_dim"(%one) {broadcast_dimensions = [], shape = array<i64: 1024, 16>} : (tensor<f32>) -> tensor<1024x16xf32>
  %idx = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 1024, 1>} : () -> tensor<1024x1xi32>
  %0 = "jaxpr.jit"(%x, %w, %idx) {jaxpr = @edges, name = "edges"} : (tensor<32x16xf32>, tensor<16x16xf32>, tensor<1024x1xi32>) -> tensor<1024x16xf32>
  %1 = "jaxpr.jit"(%big, %w) {jaxpr = @last, name = "last"} : (tensor<1024x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  %2 = "jaxpr.jit"(%x, %ct, %idx) {jaxpr = @weights, name = "weights"} : (tensor<32x16xf32>, tensor<1024x16xf32>, tensor<1024x1xi32>) -> tensor<16x16xf32>
  %a = "jaxpr.slice"(%0) {limit_indices = array<i64: 2, 1>, start_indices = array<i64: 1, 0>} : (tensor<1024x16xf32>) -> tensor<1x1xf32>
  %b = "jaxpr.slice"(%1) {limit_indices = array<i64: 1, 1>, start_indices = array<i64: 0, 0>} : (tensor<1x16xf32>) -> tensor<1x1xf32>
  %c = "jaxpr.slice"(%2) {limit_indices = array<i64: 1, 1>, start_indices = array<i64: 0, 0>} : (tensor<16x16xf32>) -> tensor<1x1xf32>
  %3 = "jaxpr.reshape"(%a) {new_sizes = []} : (tensor<1x1xf32>) -> tensor<f32>
  %4 = "jaxpr.reshape"(%b) {new_sizes = []} : (tensor<1x1xf32>) -> tensor<f32>
  %5 = "jaxpr.reshape"(%c) {new_sizes = []} : (tensor<1x1xf32>) -> tensor<f32>
  %words = "jaxpr.constant"() {value = dense<[7, 0, 31, 32, -1, 1, 2, 3]> : tensor<8xi32>} : () -> tensor<8xi32>
  %6 = "jaxpr.jit"(%x, %words) {jaxpr = @words, name = "words"} : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  %d = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 8, 64>} : () -> tensor<8x64xf32>
  %u = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 48, 64>} : () -> tensor<48x64xf32>
  %7 = "jaxpr.jit"(%d, %u, %d, %u) {jaxpr = @gates, name = "gates"} : (tensor<8x64xf32>, tensor<48x64xf32>, tensor<8x64xf32>, tensor<48x64xf32>) -> tensor<8x16xf32>
  %8 = "jaxpr.slice"(%7) {limit_indices = array<i64: 2, 1>, start_indices = array<i64: 1, 0>} : (tensor<8x16xf32>) -> tensor<1x1xf32>
  %9 = "jaxpr.reshape"(%8) {new_sizes = []} : (tensor<1x1xf32>) -> tensor<f32>
  return %3, %4, %5, %6, %9 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<8x16xf32>, tensor<f32>
}
