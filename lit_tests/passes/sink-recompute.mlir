// A value that is cheap to recompute from values in memory is not stored during the point of peak memory.

// RUN: jaxmlir-opt --jaxpr-sink-recompute='calls=inf min-peak=0 min-bytes=0 slowdown=1000' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-sink-recompute='calls=inf min-peak=0 min-bytes=0 slowdown=1000' %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt %s -o %t.same
// RUN: jaxmlir-opt --target=tpu --jaxpr-sink-recompute='calls=inf min-peak=0 min-bytes=0 slowdown=1000' %s -o %t.other
// RUN: diff %t.other %t.same
// RUN: jaxmlir-opt --jaxpr-sink-recompute='calls=inf min-bytes=0 slowdown=1000' %s -o %t.small
// RUN: diff %t.small %t.same
// RUN: jaxmlir-opt --jaxpr-sink-recompute='calls=inf min-peak=0 min-bytes=0 slowdown=0' %s -o %t.slow
// RUN: diff %t.slow %t.same
// RUN: jaxmlir-run %s --args '[[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], [0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]], [2.0, 4.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], [0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]], [2.0, 4.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-sink-recompute='calls=inf min-peak=0 min-bytes=0 slowdown=1000' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: sink-recompute.mlir:{{[0-9]+}}:8: remark: [jaxpr-sink-recompute] sunk to its late readers: 56 bytes are not stored
// REMARK: sink-recompute.mlir:{{[0-9]+}}:8: remark: [jaxpr-sink-recompute] sunk to its late readers: 64 bytes are not stored

// The quotient is read again after the chain of products, so it is recomputed then: a select of the small divisor delays the recompute until the chain is done.
// CHECK:      func.func public @main(%[[E:.*]]: tensor<2x8xf32>, %{{.*}}: tensor<2xf32>)
// CHECK-NEXT:   %[[F:.*]]:4 = "jaxpr.jit"(%[[E]]
// CHECK:        "jaxpr.tanh"
// CHECK:        "jaxpr.tanh"
// CHECK:        "jaxpr.tanh"
// CHECK:        %[[T:.*]] = "jaxpr.tanh"
// CHECK-NEXT:   %[[TRUE:.*]] = "jaxpr.constant"() {value = dense<true> : tensor<i1>}
// CHECK-NEXT:   %[[YES:.*]] = "jaxpr.jit"(%[[TRUE]], %[[T]]) {jaxpr = @wait, {{.*}}inlineable{{.*}} : (tensor<i1>, tensor<8x8xf32>) -> tensor<i1>
// CHECK:        %[[W:.*]] = "jaxpr.select_n"(%[[YES]], %{{.*}}, %[[F]]#1)
// CHECK-NEXT:   %[[P:.*]] = "jaxpr.div"(%[[E]], %[[W]])
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.dot_general"(%[[P]], %[[T]])
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.mul"(%[[A]], %[[E]])

// Only the last product reads the difference. The difference has no small operand, so the select is on the argument.
// CHECK:        %[[YES2:.*]] = "jaxpr.jit"(%{{.*}}, %[[T]]) {jaxpr = @wait,
// CHECK:        %[[E1:.*]] = "jaxpr.select_n"(%[[YES2]], %{{.*}}, %[[E]])
// CHECK-NEXT:   %[[C2:.*]] = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK-NEXT:   %[[O:.*]] = "jaxpr.sub"(%[[C2]], %[[E1]])
// CHECK-NEXT:   %[[D:.*]] = "jaxpr.dot_general"(%[[O]], %[[T]])
// CHECK-NEXT:   return %[[B]], %[[D]]

// CHECK:      func.func private @wait(%[[V:.*]]: tensor<i1>, %[[AFTER:.*]]: tensor<8x8xf32>) -> tensor<i1>
// CHECK-NEXT:   %[[BOTH:.*]]:2 = "jaxpr.optimization_barrier"(%[[V]], %[[AFTER]])
// CHECK-NEXT:   return %[[BOTH]]#0

// EXEC: result[0]: f32[2,8] = {{\[\[}}0.0454
// EXEC: result[1]: f32[2,8] = {{\[\[}}0.936

func.func public @main(%e: tensor<2x8xf32>, %s: tensor<2xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %y, %w, %p, %o = "jaxpr.jit"(%e, %s) {jaxpr = @forward, name = "forward"} : (tensor<2x8xf32>, tensor<2xf32>) -> (tensor<8x8xf32>, tensor<2x1xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  %d0 = "jaxpr.dot_general"(%y, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t0 = "jaxpr.tanh"(%d0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %d1 = "jaxpr.dot_general"(%t0, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t1 = "jaxpr.tanh"(%d1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %d2 = "jaxpr.dot_general"(%t1, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t2 = "jaxpr.tanh"(%d2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %d3 = "jaxpr.dot_general"(%t2, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t3 = "jaxpr.tanh"(%d3) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = "jaxpr.dot_general"(%p, %t3) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %b = "jaxpr.mul"(%a, %e) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %c = "jaxpr.dot_general"(%o, %t3) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  return %b, %c : tensor<2x8xf32>, tensor<2x8xf32>
}

func.func private @forward(%e: tensor<2x8xf32>, %s: tensor<2xf32>) -> (tensor<8x8xf32>, tensor<2x1xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
  %w = "jaxpr.reshape"(%s) {new_sizes = array<i64: 2, 1>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %p = "jaxpr.div"(%e, %w) : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %y = "jaxpr.dot_general"(%p, %e) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %one = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %o = "jaxpr.sub"(%one, %e) : (tensor<f32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %y, %w, %p, %o : tensor<8x8xf32>, tensor<2x1xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}

