// If residuals take far more memory than the allocator keeps, running the forward pass again is quicker than storing them.

// RUN: jaxmlir-opt --jaxpr-checkpoint-segments='calls=inf min-peak=0' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-checkpoint-segments %s | FileCheck %s --check-prefix=STORED
// RUN: jaxmlir-opt --target=tpu --jaxpr-checkpoint-segments='calls=inf min-peak=0' %s | FileCheck %s --check-prefix=STORED
// RUN: jaxmlir-run %s --args '[[0.1, 0.2], [0.3, -0.4]], [[1.0, 0.5], [0.25, 1.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[0.1, 0.2], [0.3, -0.4]], [[1.0, 0.5], [0.25, 1.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-checkpoint-segments='calls=inf min-peak=0' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The derivative of four layers tanh(x w). The first tanh is not stored, but recomputed from %x. A select of %x delays
// the recompute: its predicate depends on the cotangent of the layer's result.
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    %[[X:[^:]+]]: tensor<2x2xf32>, %[[W:[^:]+]]: tensor<2x2xf32>
// CHECK-NEXT:    %[[Y1:.*]] = "jaxpr.dot_general"(%[[X]], %[[W]])
// CHECK-NEXT:    "jaxpr.tanh"(%[[Y1]])
// CHECK:         %[[TRUE:.*]] = "jaxpr.constant"() {value = dense<true> : tensor<i1>}
// CHECK-NEXT:    %[[YES:.*]] = "jaxpr.jit"(%[[TRUE]], %[[CT:.*]]) {jaxpr = @wait,
// CHECK:         %[[AGAIN:.*]] = "jaxpr.select_n"(%[[YES]], %{{.*}}, %[[X]])
// CHECK-NEXT:    %[[Z1:.*]] = "jaxpr.dot_general"(%[[AGAIN]], %[[W]])
// CHECK-NEXT:    %[[X1:.*]] = "jaxpr.tanh"(%[[Z1]])
// CHECK-NEXT:    %[[S1:.*]] = "jaxpr.mul"(%[[X1]], %[[X1]])
// CHECK-NEXT:    "jaxpr.mul"(%[[CT]], %[[S1]])
// CHECK:         func.func private @wait(
// CHECK-NEXT:    "jaxpr.optimization_barrier"

// If the program needs little memory, and on other devices, all residuals are stored.
// STORED-COUNT-4: "jaxpr.tanh"
// STORED-NOT:     "jaxpr.tanh"

// REMARK: checkpoint-segments.mlir:{{[0-9]+}}:9: remark: [jaxpr-checkpoint-segments] runs 2 ops of the forward pass again: 16 bytes are not stored

// EXEC:      result: f32[2,2] = {{\[\[}}1.1104{{[0-9]*}}, 0.7738{{[0-9]*}}],
// EXEC-NEXT: [0.0705{{[0-9]*}}, 0.0359{{[0-9]*}}]]
func.func public @main(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y1 = "jaxpr.dot_general"(%x, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x1 = "jaxpr.tanh"(%y1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y2 = "jaxpr.dot_general"(%x1, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x2 = "jaxpr.tanh"(%y2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y3 = "jaxpr.dot_general"(%x2, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x3 = "jaxpr.tanh"(%y3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y4 = "jaxpr.dot_general"(%x3, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x4 = "jaxpr.tanh"(%y4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s4 = "jaxpr.mul"(%x4, %x4) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %d4 = "jaxpr.mul"(%x4, %s4) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b4 = "jaxpr.sub"(%x4, %d4) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c4 = "jaxpr.dot_general"(%b4, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %s3 = "jaxpr.mul"(%x3, %x3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %d3 = "jaxpr.mul"(%c4, %s3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b3 = "jaxpr.sub"(%c4, %d3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c3 = "jaxpr.dot_general"(%b3, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %s2 = "jaxpr.mul"(%x2, %x2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %d2 = "jaxpr.mul"(%c3, %s2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b2 = "jaxpr.sub"(%c3, %d2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c2 = "jaxpr.dot_general"(%b2, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %s1 = "jaxpr.mul"(%x1, %x1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %d1 = "jaxpr.mul"(%c2, %s1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b1 = "jaxpr.sub"(%c2, %d1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c1 = "jaxpr.dot_general"(%b1, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %c1 : tensor<2x2xf32>
}
