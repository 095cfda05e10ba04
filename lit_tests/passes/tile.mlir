// Independent rows of a batch are computed a few at a time.

// RUN: jaxmlir-opt --jaxpr-tile='tile-size=2 min-peak=0' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-tile %s -o %t.small
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.small %t.same
// RUN: jaxmlir-run %s --args '[[0.0, 1.0], [2.0, 3.0], [-1.0, 1.0], [1.0, 1.0], [2.0, -2.0]], [[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[0.0, 1.0], [2.0, 3.0], [-1.0, 1.0], [1.0, 1.0], [2.0, -2.0]], [[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-tile='tile-size=2 min-peak=0' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The values x w, e = exp(x w), e w^T and x^T e are computed in tiles. Two tiles of two rows form a loop;
// the fifth row is computed after the loop.
// REMARK: tile.mlir:{{[0-9]+}}:8: remark: [jaxpr-tile] tiled 5 rows, 2 at a time: the values of 4 ops take 24 bytes instead of 60, estimated 0.24 ms slower
// CHECK:      func.func public @main(%[[X:.*]]: tensor<5x2xf32>, %[[W:.*]]: tensor<2x3xf32>)
// CHECK:        %[[ZERO:.*]] = "jaxpr.broadcast_in_dim"({{.*}}) {{.*}} -> tensor<2x3xf32>
// CHECK:        %[[LOOP:.*]]:2 = "jaxpr.scan"(%[[W]], %[[X]], %[[ZERO]], %{{.*}}) {jaxpr = @main.tile, length = 2 : i64, num_carry = 1 : i64, num_consts = 2 : i64} : {{.*}} -> (tensor<2x3xf32>, tensor<2x2x2xf32>)

// CHECK-NEXT:   %[[X5:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 5, 2>, start_indices = array<i64: 4, 0>}
// CHECK-NEXT:   %[[A5:.*]] = "jaxpr.dot_general"(%[[X5]], %[[W]])
// CHECK-NEXT:   %[[E5:.*]] = "jaxpr.exp"(%[[A5]]) : (tensor<1x3xf32>) -> tensor<1x3xf32>
// CHECK-NEXT:   %[[Y5:.*]] = "jaxpr.dot_general"(%[[E5]], %[[W]])
// CHECK-NEXT:   %[[P5:.*]] = "jaxpr.dot_general"(%[[X5]], %[[E5]])
// CHECK-NEXT:   %[[P:.*]] = "jaxpr.add"(%[[LOOP]]#0, %[[P5]])
// CHECK-NEXT:   %[[Y4:.*]] = "jaxpr.reshape"(%[[LOOP]]#1) {new_sizes = array<i64: 4, 2>}
// CHECK-NEXT:   %[[Y:.*]] = "jaxpr.concatenate"(%[[Y4]], %[[Y5]]) {dimension = 0 : i64}
// CHECK-NEXT:   return %[[Y]], %[[P]]

// The loop body carries the sum of products, and stacks the rows of the other result.
// CHECK:      func.func private @main.tile(%[[W:.*]]: tensor<2x3xf32>, %[[X:.*]]: tensor<5x2xf32>, %[[SUM:.*]]: tensor<2x3xf32>, %[[I:.*]]: tensor<i32>)
// CHECK:        %[[X2:.*]] = "jaxpr.dynamic_slice"(%[[X]], %[[I]], %{{.*}}) {slice_sizes = array<i64: 2, 2>}
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.dot_general"(%[[X2]], %[[W]])
// CHECK-NEXT:   %[[E:.*]] = "jaxpr.exp"(%[[A]])
// CHECK-NEXT:   %[[Y:.*]] = "jaxpr.dot_general"(%[[E]], %[[W]])
// CHECK-NEXT:   %[[P:.*]] = "jaxpr.dot_general"(%[[X2]], %[[E]])
// CHECK-NEXT:   %[[NEW:.*]] = "jaxpr.add"(%[[SUM]], %[[P]])
// CHECK-NEXT:   return %[[NEW]], %[[Y]]

// EXEC: result[0]: f32[5,2] = {{.*}}1.73575{{[0-9]*}}, 2.3504
// EXEC: [814.246{{[0-9]*}}, -403.293
// EXEC: result[1]: f32[2,3] = {{.*}}31.9066{{[0-9]*}}, 40.4417{{[0-9]*}}, 814.962
func.func public @main(%x: tensor<5x2xf32>, %w: tensor<2x3xf32>) -> (tensor<5x2xf32>, tensor<2x3xf32>) {
  %0 = "jaxpr.dot_general"(%x, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<5x2xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>
  %1 = "jaxpr.exp"(%0) : (tensor<5x3xf32>) -> tensor<5x3xf32>
  %2 = "jaxpr.dot_general"(%1, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [[], []]], preferred_element_type = f32} : (tensor<5x3xf32>, tensor<2x3xf32>) -> tensor<5x2xf32>
  %3 = "jaxpr.dot_general"(%x, %1) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<5x2xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  return %2, %3 : tensor<5x2xf32>, tensor<2x3xf32>
}
