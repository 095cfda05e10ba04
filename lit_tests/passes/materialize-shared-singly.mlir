// Fences: a value is stored before its dimensions are merged and before it is reduced, if XLA would not vectorize the kernel.

// RUN: jaxmlir-opt --jaxpr-materialize-shared %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-materialize-shared --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// Two broadcast arrays, merged for a product with a matrix. A reshape that splits dimensions merges none.
// CHECK-LABEL: func.func private @merged
// CHECK:         %[[OUTER:.*]] = "jaxpr.mul"
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[OUTER]])
// CHECK-NEXT:    %[[ROWS:.*]] = "jaxpr.reshape"(%[[STORED]])
// CHECK-NEXT:    "jaxpr.dot_general"(%[[ROWS]]
// CHECK-NOT:     {{fence|optimization_barrier}}
// CHECK:         return
// REMARK-DAG: materialize-shared-singly.mlir:{{[0-9]+}}:12: remark: [jaxpr-materialize-shared] stored because a kernel that merges its dimensions is not vectorized
func.func private @merged(%x: tensor<64x4xf32>, %y: tensor<64x8xf32>, %w: tensor<32x2xf32>) -> (tensor<64x2xf32>, tensor<8x8x4x8xf32>) {
  %left = "jaxpr.broadcast_in_dim"(%x) {broadcast_dimensions = array<i64: 0, 1>, shape = array<i64: 64, 4, 8>} : (tensor<64x4xf32>) -> tensor<64x4x8xf32>
  %right = "jaxpr.broadcast_in_dim"(%y) {broadcast_dimensions = array<i64: 0, 2>, shape = array<i64: 64, 4, 8>} : (tensor<64x8xf32>) -> tensor<64x4x8xf32>
  %outer = "jaxpr.mul"(%left, %right) : (tensor<64x4x8xf32>, tensor<64x4x8xf32>) -> tensor<64x4x8xf32>
  %rows = "jaxpr.reshape"(%outer) {new_sizes = array<i64: 64, 32>} : (tensor<64x4x8xf32>) -> tensor<64x32xf32>
  %0 = "jaxpr.dot_general"(%rows, %w) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]]} : (tensor<64x32xf32>, tensor<32x2xf32>) -> tensor<64x2xf32>
  %split = "jaxpr.reshape"(%left) {new_sizes = array<i64: 8, 8, 4, 8>} : (tensor<64x4x8xf32>) -> tensor<8x8x4x8xf32>
  return %0, %split : tensor<64x2xf32>, tensor<8x8x4x8xf32>
}

// The updates of a scatter of single elements are merged too.
// CHECK-LABEL: func.func private @scattered
// CHECK:         %[[SCALED:.*]] = "jaxpr.mul"
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[SCALED]])
// CHECK-NEXT:    "jaxpr.scatter_add"(%{{.*}}, %{{.*}}, %[[STORED]])
func.func private @scattered(%x: tensor<128x8xf32>, %s: tensor<128xf32>, %into: tensor<8xf32>, %i: tensor<128x8x1xi32>) -> tensor<8xf32> {
  %scale = "jaxpr.broadcast_in_dim"(%s) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 128, 8>} : (tensor<128xf32>) -> tensor<128x8xf32>
  %scaled = "jaxpr.mul"(%x, %scale) : (tensor<128x8xf32>, tensor<128x8xf32>) -> tensor<128x8xf32>
  %0 = "jaxpr.scatter_add"(%into, %i, %scaled) {dimension_numbers = {ScatterDimensionNumbers = {update_window_dims = [], inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, operand_batching_dims = [], scatter_indices_batching_dims = []}}, indices_are_sorted = false, mode = {GatherScatterMode = "CLIP"}, unique_indices = false, update_consts = [], update_jaxpr = @add} : (tensor<8xf32>, tensor<128x8x1xi32>, tensor<128x8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

func.func private @add(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Five additions and products are worth storing, in a called function too; three are not.
// CHECK-LABEL: func.func private @reduced
// CHECK:         %[[FIVE:.*]] = "jaxpr.jit"(%{{.*}}) {jaxpr = @cube
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[FIVE]])
// CHECK-NEXT:    "jaxpr.reduce_sum"(%[[STORED]])
// CHECK-NOT:     {{fence|optimization_barrier}}
// CHECK:         return
// REMARK-DAG: materialize-shared-singly.mlir:{{[0-9]+}}:11: remark: [jaxpr-materialize-shared] stored because the reduction that reads it is not vectorized
func.func private @reduced(%x: tensor<1024x8xf32>, %y: tensor<1024x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %one = "jaxpr.sub"(%x, %y) : (tensor<1024x8xf32>, tensor<1024x8xf32>) -> tensor<1024x8xf32>
  %two = "jaxpr.mul"(%one, %y) : (tensor<1024x8xf32>, tensor<1024x8xf32>) -> tensor<1024x8xf32>
  %three = "jaxpr.add"(%two, %x) : (tensor<1024x8xf32>, tensor<1024x8xf32>) -> tensor<1024x8xf32>
  %five = "jaxpr.jit"(%three) {jaxpr = @cube, name = "cube"} : (tensor<1024x8xf32>) -> tensor<1024x8xf32>
  %0 = "jaxpr.reduce_sum"(%five) {axes = array<i64: 0>} : (tensor<1024x8xf32>) -> tensor<8xf32>
  %neg = "jaxpr.neg"(%x) : (tensor<1024x8xf32>) -> tensor<1024x8xf32>
  %also = "jaxpr.jit"(%neg) {jaxpr = @cube, name = "cube"} : (tensor<1024x8xf32>) -> tensor<1024x8xf32>
  %1 = "jaxpr.reduce_sum"(%also) {axes = array<i64: 0>} : (tensor<1024x8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
func.func private @cube(%x: tensor<1024x8xf32>) -> tensor<1024x8xf32> {
  %0 = "jaxpr.mul"(%x, %x) : (tensor<1024x8xf32>, tensor<1024x8xf32>) -> tensor<1024x8xf32>
  %1 = "jaxpr.mul"(%0, %x) : (tensor<1024x8xf32>, tensor<1024x8xf32>) -> tensor<1024x8xf32>
  return %1 : tensor<1024x8xf32>
}

// EXEC:      result[0]: f32[] = 67032.0
// EXEC-NEXT: result[1]: f32[] = 56896.0
// EXEC-NEXT: result[2]: f32[] = 9.252989e+11
func.func public @main() -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %x = "jaxpr.iota"() {dimension = 1 : i64, dtype = f32, shape = array<i64: 64, 4>} : () -> tensor<64x4xf32>
  %y = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 64, 8>} : () -> tensor<64x8xf32>
  %w = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 32, 2>} : () -> tensor<32x2xf32>
  %merged:2 = "jaxpr.jit"(%x, %y, %w) {jaxpr = @merged, name = "merged"} : (tensor<64x4xf32>, tensor<64x8xf32>, tensor<32x2xf32>) -> (tensor<64x2xf32>, tensor<8x8x4x8xf32>)
  %0 = "jaxpr.reduce_max"(%merged#0) {axes = array<i64: 0, 1>} : (tensor<64x2xf32>) -> tensor<f32>
  %updates = "jaxpr.iota"() {dimension = 1 : i64, dtype = f32, shape = array<i64: 128, 8>} : () -> tensor<128x8xf32>
  %scale = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 128>} : () -> tensor<128xf32>
  %none = "jaxpr.constant"() {value = dense<0.0> : tensor<8xf32>} : () -> tensor<8xf32>
  %i = "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 128, 8, 1>} : () -> tensor<128x8x1xi32>
  %sums = "jaxpr.jit"(%updates, %scale, %none, %i) {jaxpr = @scattered, name = "scattered"} : (tensor<128x8xf32>, tensor<128xf32>, tensor<8xf32>, tensor<128x8x1xi32>) -> tensor<8xf32>
  %1 = "jaxpr.reduce_max"(%sums) {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %left = "jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: 1024, 8>} : () -> tensor<1024x8xf32>
  %right = "jaxpr.constant"() {value = dense<0.5> : tensor<1024x8xf32>} : () -> tensor<1024x8xf32>
  %reduced:2 = "jaxpr.jit"(%left, %right) {jaxpr = @reduced, name = "reduced"} : (tensor<1024x8xf32>, tensor<1024x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %2 = "jaxpr.reduce_max"(%reduced#0) {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}
