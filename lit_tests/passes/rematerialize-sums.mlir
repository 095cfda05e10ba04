// The backward pass stores partial sums: here the sum of the contributions of six layers to the derivative by the weights.

// RUN: jaxmlir-opt --jaxpr-remat='memory-budget=0.6' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s --args '[[1.0, 0.5], [0.25, 1.0]], [[0.1, 0.2], [0.3, -0.4]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[1.0, 0.5], [0.25, 1.0]], [[0.1, 0.2], [0.3, -0.4]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-remat='memory-budget=0.6 measure=true' --remarks=all %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=MEASURED

// The derivative of six layers sin(x w) by w. The recomputation of layers three and four waits for the sum of the last two contributions, and the recomputation of layers one and two waits for the sum of these four: only %[[SUM]] is left of them. Otherwise all six products would be in memory when they are added.
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    %[[W:[^:]+]]: tensor<2x2xf32>, %[[X:[^:]+]]: tensor<2x2xf32>
// CHECK:         %[[SUM2:.*]] = "jaxpr.add_any"
// CHECK-NEXT:    %[[CT2:.*]] = "jaxpr.mul"
// CHECK:         %[[WAIT2:.*]]:2 = "jaxpr.jit"(%{{.*}}, %[[SUM2]], %[[CT2]]) {jaxpr = @[[WAITS:.*]], jaxpr.ctx
// CHECK:         %[[SUM3:.*]] = "jaxpr.add_any"(%[[WAIT2]]#1, %{{.*}})
// CHECK:         %[[SUM:.*]] = "jaxpr.add_any"(%[[SUM3]], %{{.*}})
// CHECK-NEXT:    %[[CT:.*]] = "jaxpr.mul"
// CHECK:         %[[WAIT:.*]]:2 = "jaxpr.jit"(%{{.*}}, %[[SUM]], %[[CT]]) {jaxpr = @[[WAITS]], jaxpr.ctx
// CHECK:         %[[AGAIN:.*]] = "jaxpr.select_n"(%[[WAIT]]#0, %{{.*}}, %[[X]])
// CHECK-NEXT:    %[[Z1:.*]] = "jaxpr.dot_general"(%[[AGAIN]], %[[W]])
// CHECK-NEXT:    %[[X1:.*]] = "jaxpr.sin"(%[[Z1]])
// CHECK-NEXT:    "jaxpr.cos"(%[[Z1]])
// CHECK-NEXT:    "jaxpr.dot_general"(%[[CT]], %[[X1]])
// CHECK-NEXT:    %[[W5:.*]] = "jaxpr.transpose"
// CHECK-NEXT:    "jaxpr.dot_general"
// CHECK-NEXT:    "jaxpr.add_any"(%[[WAIT]]#1, %[[W5]])
// CHECK:         func.func private @[[WAITS]](
// CHECK-NEXT:    "jaxpr.optimization_barrier"

// MEASURED: remark: [jaxpr-remat] needs {{.*}} bytes of temporary memory, by the compiler; the budget is {{.*}} bytes

// EXEC:      result: f32[2,2] = {{\[\[}}5.09374{{[0-9]*}}, 3.59776{{[0-9]*}}],
// EXEC-NEXT: [-0.74655{{[0-9]*}}, -0.67816{{[0-9]*}}]]
func.func public @main(%w: tensor<2x2xf32>, %x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = "jaxpr.dot_general"(%x, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "jaxpr.sin"(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = "jaxpr.cos"(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = "jaxpr.dot_general"(%1, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = "jaxpr.sin"(%3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %5 = "jaxpr.cos"(%3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %6 = "jaxpr.dot_general"(%4, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %7 = "jaxpr.sin"(%6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %8 = "jaxpr.cos"(%6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %9 = "jaxpr.dot_general"(%7, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %10 = "jaxpr.sin"(%9) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %11 = "jaxpr.cos"(%9) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %12 = "jaxpr.dot_general"(%10, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %13 = "jaxpr.sin"(%12) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %14 = "jaxpr.cos"(%12) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %15 = "jaxpr.dot_general"(%13, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %16 = "jaxpr.cos"(%15) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %17 = "jaxpr.dot_general"(%16, %13) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %18 = "jaxpr.transpose"(%17) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %19 = "jaxpr.dot_general"(%16, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %20 = "jaxpr.mul"(%19, %14) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %21 = "jaxpr.dot_general"(%20, %10) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %22 = "jaxpr.transpose"(%21) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %23 = "jaxpr.dot_general"(%20, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %24 = "jaxpr.add_any"(%18, %22) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %25 = "jaxpr.mul"(%23, %11) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %26 = "jaxpr.dot_general"(%25, %7) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %27 = "jaxpr.transpose"(%26) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %28 = "jaxpr.dot_general"(%25, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %29 = "jaxpr.add_any"(%24, %27) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %30 = "jaxpr.mul"(%28, %8) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %31 = "jaxpr.dot_general"(%30, %4) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %32 = "jaxpr.transpose"(%31) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %33 = "jaxpr.dot_general"(%30, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %34 = "jaxpr.add_any"(%29, %32) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %35 = "jaxpr.mul"(%33, %5) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %36 = "jaxpr.dot_general"(%35, %1) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %37 = "jaxpr.transpose"(%36) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %38 = "jaxpr.dot_general"(%35, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %39 = "jaxpr.add_any"(%34, %37) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %40 = "jaxpr.mul"(%38, %2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %41 = "jaxpr.dot_general"(%40, %x) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %42 = "jaxpr.transpose"(%41) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %43 = "jaxpr.add_any"(%39, %42) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %43 : tensor<2x2xf32>
}
