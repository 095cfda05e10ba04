// Collectives over the axis that is batched become operations along the batch dimension.
//
//   x = 1, 2:  the sum, the index of each, and the x of all

// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 axis-name=i out-axes=-1,0,0' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: not jaxmlir-run %s --args '1.0' 2>&1 | FileCheck %s --check-prefix=ALONE

// CHECK:      func.func private @f.vmap(%[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.psum"(%[[X]]) {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
// CHECK-NEXT:   %[[PLACE:.*]] = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 2>}
// CHECK-NEXT:   %[[ALL:.*]] = "jaxpr.broadcast_in_dim"(%[[X]]) {broadcast_dimensions = array<i64: 1>
// CHECK-NEXT:   return %[[SUM]], %[[PLACE]], %[[ALL]]

// EXEC:      result[0]: f32[] = 3.0
// EXEC-NEXT: result[1]: i32[2] = [0, 1]
// EXEC-NEXT: result[2]: f32[2,2] = {{\[}}[1.0, 2.0],
// EXEC-NEXT: [1.0, 2.0]]

// ALONE: collectives.mlir:{{.*}}: error: 'jaxpr.psum' op cannot be lowered: unbound axis name 'i': expected a vmap
func.func public @f(%x: tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<2xf32>) {
  %0 = "jaxpr.psum"(%x) {axes = ["i"], jaxpr.effects = [{NamedAxisEffect = "i"}]} : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.axis_index"() {axis_name = "i", jaxpr.effects = [{NamedAxisEffect = "i"}]} : () -> tensor<i32>
  %2 = "jaxpr.all_gather"(%x) {all_gather_dimension = 0 : i64, axis_name = ["i"], axis_size = 2 : i64, jaxpr.effects = [{NamedAxisEffect = "i"}], tiled = false} : (tensor<f32>) -> tensor<2xf32>
  return %0, %1, %2 : tensor<f32>, tensor<i32>, tensor<2xf32>
}
