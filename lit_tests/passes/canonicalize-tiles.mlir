// If an array is laid out in tiles, slices of parts of a row become slices of the row.

// RUN: jaxmlir-opt --target=tpu --jaxpr-canonicalize %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-canonicalize %t | diff %t -
// RUN: jaxmlir-opt --jaxpr-canonicalize %s | FileCheck %s --check-prefix=LEFT
// RUN: jaxmlir-run %s --args 2.0 | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args 2.0 | FileCheck %s --check-prefix=EXEC

// CHECK-LABEL: func.func public @main
// CHECK:         %[[X:.*]] = "jaxpr.mul"
// CHECK:         %[[PART:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 2, 384>, start_indices = array<i64: 0, 128>}
// CHECK-NEXT:    %[[HEADS:.*]] = "jaxpr.reshape"(%[[PART]]) {new_sizes = array<i64: 2, 2, 4, 32>}
// Parts of heads are not whole parts of the row, and three numbers do not fill a tile.
// CHECK:         "jaxpr.slice"(%{{.*}}) {limit_indices = array<i64: 2, 3, 1, 32>
// CHECK:         "jaxpr.slice"(%{{.*}}) {limit_indices = array<i64: 2, 1, 3>
// CHECK:         %[[FIRST:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 2, 128>, start_indices = array<i64: 0, 0>}
// CHECK-NEXT:    %{{.*}} = "jaxpr.reshape"(%[[FIRST]]) {new_sizes = array<i64: 2, 4, 32>}
// LEFT-LABEL:  func.func public @main
// LEFT:          "jaxpr.slice"(%{{.*}}) {limit_indices = array<i64: 2, 3, 4, 32>, start_indices = array<i64: 0, 1, 0, 0>}

// EXEC: result[0]: f32[] = 261632.0
// EXEC: result[1]: f32[] = 55104.0
// EXEC: result[2]: f32[] = 12.0
// EXEC: result[3]: f32[] = -65536.0
func.func public @main(%s: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %i = "jaxpr.iota"() {dimension = 1 : i64, dtype = f32, shape = array<i64: 2, 384>} : () -> tensor<2x384xf32>
  %x = "jaxpr.mul"(%i, %s) : (tensor<2x384xf32>, tensor<f32>) -> tensor<2x384xf32>
  %0 = "jaxpr.reshape"(%x) {new_sizes = array<i64: 2, 3, 4, 32>} : (tensor<2x384xf32>) -> tensor<2x3x4x32xf32>
  %1 = "jaxpr.slice"(%0) {limit_indices = array<i64: 2, 3, 4, 32>, start_indices = array<i64: 0, 1, 0, 0>} : (tensor<2x3x4x32xf32>) -> tensor<2x2x4x32xf32>
  %2 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x2x4x32xf32>) -> tensor<f32>
  %3 = "jaxpr.slice"(%0) {limit_indices = array<i64: 2, 3, 1, 32>, start_indices = array<i64: 0, 0, 0, 0>} : (tensor<2x3x4x32xf32>) -> tensor<2x3x1x32xf32>
  %4 = "jaxpr.reduce_sum"(%3) {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x3x1x32xf32>) -> tensor<f32>
  %5 = "jaxpr.reshape"(%x) {new_sizes = array<i64: 2, 128, 3>} : (tensor<2x384xf32>) -> tensor<2x128x3xf32>
  %6 = "jaxpr.slice"(%5) {limit_indices = array<i64: 2, 1, 3>, start_indices = array<i64: 0, 0, 0>} : (tensor<2x128x3xf32>) -> tensor<2x1x3xf32>
  %7 = "jaxpr.reduce_sum"(%6) {axes = array<i64: 0, 1, 2>} : (tensor<2x1x3xf32>) -> tensor<f32>
  %8:3 = "jaxpr.unstack"(%0) {axis = 1 : i64} : (tensor<2x3x4x32xf32>) -> (tensor<2x4x32xf32>, tensor<2x4x32xf32>, tensor<2x4x32xf32>)
  %9 = "jaxpr.sub"(%8#0, %8#1) : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %10 = "jaxpr.reduce_sum"(%9) {axes = array<i64: 0, 1, 2>} : (tensor<2x4x32xf32>) -> tensor<f32>
  return %2, %4, %7, %10 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
