// Straight-line code within a budget: values of the beginning of the forward pass are recomputed where the backward pass reads them.

// RUN: jaxmlir-opt --jaxpr-remat='memory-budget=0.7' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-remat=calls=inf %s | FileCheck %s --check-prefix=ALONE
// RUN: jaxmlir-run %s --args '[[0.1, 0.2], [0.3, -0.4]], [[1.0, 0.5], [0.25, 1.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[0.1, 0.2], [0.3, -0.4]], [[1.0, 0.5], [0.25, 1.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-remat='memory-budget=0.7' --remarks=all %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The derivative of six layers sin(x w). The cosines of the first two layers are not stored. They are recomputed from the operand, once the cotangent that reads them is available: the result of the call selects the operand.
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    %[[X:[^:]+]]: tensor<2x2xf32>, %[[W:[^:]+]]: tensor<2x2xf32>
// CHECK-NEXT:    %[[Y1:.*]] = "jaxpr.dot_general"(%[[X]], %[[W]])
// CHECK-NEXT:    %[[X1:.*]] = "jaxpr.sin"(%[[Y1]])
// CHECK-NEXT:    %[[Y2:.*]] = "jaxpr.dot_general"(%[[X1]], %[[W]])
// CHECK-NEXT:    %[[X2:.*]] = "jaxpr.sin"(%[[Y2]])
// CHECK-NEXT:    %[[Y3:.*]] = "jaxpr.dot_general"(%[[X2]], %[[W]])
// CHECK-NEXT:    "jaxpr.sin"(%[[Y3]])
// CHECK-NEXT:    %[[D3:.*]] = "jaxpr.cos"(%[[Y3]])
// CHECK:         "jaxpr.mul"(%{{.*}}, %[[D3]])
// CHECK-NEXT:    %[[CT:.*]] = "jaxpr.dot_general"
// CHECK-NEXT:    %[[YES:.*]] = "jaxpr.constant"() {value = dense<true> : tensor<i1>}
// CHECK-NEXT:    %[[WAIT:.*]] = "jaxpr.jit"(%[[YES]], %[[CT]]) {jaxpr = @[[WAITS:.*]], jaxpr.ctx = {xla_metadata = {dict = {{\[\[}}"inlineable", "false"]]}}, name = "wait"}
// CHECK:         %[[AGAIN:.*]] = "jaxpr.select_n"(%[[WAIT]], %{{.*}}, %[[X]])
// CHECK-NEXT:    %[[Z1:.*]] = "jaxpr.dot_general"(%[[AGAIN]], %[[W]])
// CHECK-NEXT:    %[[S1:.*]] = "jaxpr.sin"(%[[Z1]])
// CHECK-NEXT:    %[[D1:.*]] = "jaxpr.cos"(%[[Z1]])
// CHECK-NEXT:    %[[Z2:.*]] = "jaxpr.dot_general"(%[[S1]], %[[W]])
// CHECK-NEXT:    %[[D2:.*]] = "jaxpr.cos"(%[[Z2]])
// CHECK-NEXT:    "jaxpr.mul"(%[[CT]], %[[D2]])
// CHECK-NEXT:    %[[CT1:.*]] = "jaxpr.dot_general"
// CHECK-NEXT:    "jaxpr.mul"(%[[CT1]], %[[D1]])
// CHECK:         func.func private @[[WAITS]](
// CHECK-NEXT:    "jaxpr.optimization_barrier"

// Without a budget, nothing changes.
// ALONE-NOT:     {{wait|optimization_barrier}}

// REMARK: rematerialize-straight.mlir:{{[0-9]+}}:9: remark: [jaxpr-remat] runs 5 ops of the forward pass again: 32 bytes are not stored

// EXEC:      result: f32[2,2] = {{\[\[}}3.34552{{[0-9]*}}, 2.29885{{[0-9]*}}],
// EXEC-NEXT: [7.1025{{[0-9]*}}, 5.0155{{[0-9]*}}]]
func.func public @main(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y1 = "jaxpr.dot_general"(%x, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x1 = "jaxpr.sin"(%y1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %d1 = "jaxpr.cos"(%y1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y2 = "jaxpr.dot_general"(%x1, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x2 = "jaxpr.sin"(%y2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %d2 = "jaxpr.cos"(%y2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y3 = "jaxpr.dot_general"(%x2, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x3 = "jaxpr.sin"(%y3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %d3 = "jaxpr.cos"(%y3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y4 = "jaxpr.dot_general"(%x3, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x4 = "jaxpr.sin"(%y4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %d4 = "jaxpr.cos"(%y4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y5 = "jaxpr.dot_general"(%x4, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x5 = "jaxpr.sin"(%y5) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %d5 = "jaxpr.cos"(%y5) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y6 = "jaxpr.dot_general"(%x5, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %d6 = "jaxpr.cos"(%y6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %b5 = "jaxpr.dot_general"(%d6, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c5 = "jaxpr.mul"(%b5, %d5) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b4 = "jaxpr.dot_general"(%c5, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c4 = "jaxpr.mul"(%b4, %d4) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b3 = "jaxpr.dot_general"(%c4, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c3 = "jaxpr.mul"(%b3, %d3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b2 = "jaxpr.dot_general"(%c3, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c2 = "jaxpr.mul"(%b2, %d2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b1 = "jaxpr.dot_general"(%c2, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c1 = "jaxpr.mul"(%b1, %d1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b0 = "jaxpr.dot_general"(%c1, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %b0 : tensor<2x2xf32>
}
