// On a TPU, a slice that is moved to another place becomes a pad with a negative width.

// RUN: jaxmlir-opt --target=tpu --jaxpr-pad-slices %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-pad-slices %t | diff %t -
// RUN: jaxmlir-opt --jaxpr-pad-slices %s | FileCheck %s --check-prefix=LEFT
// RUN: jaxmlir-run %s --args '[-0.0, 2.0, inf, nan]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[-0.0, 2.0, inf, nan]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --target=tpu --jaxpr-pad-slices --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// `roll(x, 1)`: no bit of a sum with negative zeros changes.
// REMARK: pad-slices.mlir:[[# @LINE + 29]]:8: remark: [jaxpr-pad-slices] replaced 2 slices by negative padding, which is fused into the kernel that reads this
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK:         %[[ZERO:.*]] = "jaxpr.constant"() {value = dense<-0.000000e+00> : tensor<f32>}
// CHECK-NEXT:    %[[LAST:.*]] = "jaxpr.pad"(%[[X]], %[[ZERO]]) {padding_config = [array<i64: -3, 3, 0>]}
// CHECK-NEXT:    %[[FIRST:.*]] = "jaxpr.pad"(%[[X]], %[[ZERO]]) {padding_config = [array<i64: 1, -1, 0>]}
// CHECK-NEXT:    %[[ROLL:.*]] = "jaxpr.add"(%[[LAST]], %[[FIRST]])
// LEFT-LABEL:  func.func public @main
// LEFT:          "jaxpr.concatenate"

// A part of the transpose of the roll.
// CHECK:         %[[PART:.*]] = "jaxpr.pad"(%[[X]], %{{.*}}) {padding_config = [array<i64: -1, 1, 0>]}

// The slice in the middle stays: a pad of the whole array would show the elements that the slice cut off.
// CHECK:         %[[MIDDLE:.*]] = "jaxpr.slice"(%[[X]])
// CHECK-NEXT:    %[[INNER:.*]] = "jaxpr.pad"(%[[MIDDLE]], %{{.*}}) {padding_config = [array<i64: 1, 1, 0>]}

// A shift: the new elements are the number that the slice is padded with.
// CHECK-NEXT:    %[[SEVEN:.*]] = "jaxpr.constant"() {value = dense<7.000000e+00> : tensor<f32>}
// CHECK-NEXT:    %[[SHIFT:.*]] = "jaxpr.pad"(%[[X]], %[[SEVEN]]) {padding_config = [array<i64: 2, -2, 0>]}
// CHECK-NEXT:    return %[[ROLL]], %[[PART]], %[[INNER]], %[[SHIFT]]

// EXEC: result[0]: f32[4] = [nan, -0.0, 2.0, inf]
// EXEC: result[1]: f32[4] = [2.0, inf, nan, 5.0]
// EXEC: result[2]: f32[4] = [5.0, 2.0, inf, 5.0]
// EXEC: result[3]: f32[4] = [7.0, 7.0, -0.0, 2.0]
func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4>, start_indices = array<i64: 3>} : (tensor<4xf32>) -> tensor<1xf32>
  %1 = "jaxpr.slice"(%x) {limit_indices = array<i64: 3>, start_indices = array<i64: 0>} : (tensor<4xf32>) -> tensor<3xf32>
  %2 = "jaxpr.concatenate"(%0, %1) {dimension = 0 : i64} : (tensor<1xf32>, tensor<3xf32>) -> tensor<4xf32>

  %five = "jaxpr.constant"() {value = dense<5.0> : tensor<f32>} : () -> tensor<f32>
  %3:2 = "jaxpr.split"(%x) {axis = 0 : i64, sizes = array<i64: 1, 3>} : (tensor<4xf32>) -> (tensor<1xf32>, tensor<3xf32>)
  %4 = "jaxpr.pad"(%3#1, %five) {padding_config = [array<i64: 0, 1, 0>]} : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>

  %5 = "jaxpr.slice"(%x) {limit_indices = array<i64: 3>, start_indices = array<i64: 1>} : (tensor<4xf32>) -> tensor<2xf32>
  %6 = "jaxpr.pad"(%5, %five) {padding_config = [array<i64: 1, 1, 0>]} : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>

  %sevens = "jaxpr.constant"() {value = dense<7.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %7 = "jaxpr.slice"(%x) {limit_indices = array<i64: 2>, start_indices = array<i64: 0>} : (tensor<4xf32>) -> tensor<2xf32>
  %8 = "jaxpr.concatenate"(%sevens, %7) {dimension = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return %2, %4, %6, %8 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A row of a large array is sliced; only the other rows are padded as a part of the array.
// CHECK-LABEL: func.func private @large
// CHECK:         %[[ROW:.*]] = "jaxpr.slice"(%arg0) {{.*}}-> tensor<1x1024xf32>
// CHECK:         %[[LAST:.*]] = "jaxpr.pad"(%[[ROW]], %{{.*}}) {padding_config = [array<i64: 0, 511, 0>, array<i64: 0, 0, 0>]}
// CHECK-NEXT:    %[[FIRST:.*]] = "jaxpr.pad"(%arg0, %{{.*}}) {padding_config = [array<i64: 1, -1, 0>, array<i64: 0, 0, 0>]}
// CHECK-NEXT:    "jaxpr.add"(%[[LAST]], %[[FIRST]])
// CHECK:         "jaxpr.pad"(%[[ROW]], %{{.*}}) {padding_config = [array<i64: 511, 0, 0>, array<i64: 0, 0, 0>]}
func.func private @large(%x: tensor<512x1024xf32>) -> (tensor<512x1024xf32>, tensor<512x1024xf32>) {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 512, 1024>, start_indices = array<i64: 511, 0>} : (tensor<512x1024xf32>) -> tensor<1x1024xf32>
  %1 = "jaxpr.slice"(%x) {limit_indices = array<i64: 511, 1024>, start_indices = array<i64: 0, 0>} : (tensor<512x1024xf32>) -> tensor<511x1024xf32>
  %2 = "jaxpr.concatenate"(%0, %1) {dimension = 0 : i64} : (tensor<1x1024xf32>, tensor<511x1024xf32>) -> tensor<512x1024xf32>
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "jaxpr.pad"(%0, %zero) {padding_config = [array<i64: 511, 0, 0>, array<i64: 0, 0, 0>]} : (tensor<1x1024xf32>, tensor<f32>) -> tensor<512x1024xf32>
  return %2, %3 : tensor<512x1024xf32>, tensor<512x1024xf32>
}

// The padded value is stored: the kernel of the sine, which runs after the padding kernel, reads it.
// REMARK: pad-slices.mlir:[[# @LINE + 9]]:8: remark: [jaxpr-pad-slices] stored because later kernels would recompute it with its pads
// CHECK-LABEL: func.func private @steps
// CHECK:         %[[STEP:.*]] = "jaxpr.add"(%{{.*}}, %arg0)
// CHECK-NEXT:    %[[KEPT:.*]] = "jaxpr.optimization_barrier"(%[[STEP]])
// CHECK-NEXT:    "jaxpr.pad"(%[[KEPT]], %{{.*}})
// CHECK:         "jaxpr.sin"(%[[KEPT]])
func.func private @steps(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.pad"(%x, %zero) {padding_config = [array<i64: 1, -1, 0>]} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "jaxpr.add"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "jaxpr.pad"(%1, %zero) {padding_config = [array<i64: 1, -1, 0>]} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = "jaxpr.add"(%2, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = "jaxpr.pad"(%3, %zero) {padding_config = [array<i64: 1, -1, 0>]} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = "jaxpr.sin"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %6 = "jaxpr.mul"(%4, %5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %6 : tensor<4xf32>
}

// 4-bit integers are padded with a zero of their type.
// CHECK-LABEL: func.func private @narrow
// CHECK:         %[[ZERO:.*]] = "jaxpr.constant"() {value = dense<0> : tensor<i4>}
// CHECK-NEXT:    "jaxpr.pad"(%arg0, %[[ZERO]]) {padding_config = [array<i64: -3, 3, 0>]}
func.func private @narrow(%x: tensor<4xi4>) -> tensor<4xi4> {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4>, start_indices = array<i64: 3>} : (tensor<4xi4>) -> tensor<1xi4>
  %1 = "jaxpr.slice"(%x) {limit_indices = array<i64: 3>, start_indices = array<i64: 0>} : (tensor<4xi4>) -> tensor<3xi4>
  %2 = "jaxpr.concatenate"(%0, %1) {dimension = 0 : i64} : (tensor<1xi4>, tensor<3xi4>) -> tensor<4xi4>
  return %2 : tensor<4xi4>
}
