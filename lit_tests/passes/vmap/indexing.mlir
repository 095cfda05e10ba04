// Slices at batched indices become a gather; a gather and a scatter get batch dimensions of their own.
//
//   x = [1, 2, 3]:  x[i : i + 2] for i = 0, 1;   x[0] = 10, x[2] = 20

// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=-1,0,0,0' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[1.0, 2.0, 3.0], [0, 1], [[[0]], [[2]]], [10.0, 20.0]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.vmap(%[[X:.*]]: tensor<3xf32>, %[[I:.*]]: tensor<2xi32>, %[[J:.*]]: tensor<2x1x1xi32>, %[[U:.*]]: tensor<2xf32>)
// CHECK:        "jaxpr.gather"(%[[X]], %{{.*}}) {{.*}} slice_sizes = array<i64: 2>} : (tensor<3xf32>, tensor<2x1xi32>) -> tensor<2x2xf32>
// CHECK:        "jaxpr.scatter"(%{{.*}}, %[[J]], %{{.*}}) {{.*}}operand_batching_dims = array<i64: 0>{{.*}}scatter_indices_batching_dims = array<i64: 0>
// CHECK-SAME:     (tensor<2x3xf32>, tensor<2x1x1xi32>, tensor<2x1xf32>) -> tensor<2x3xf32>

// EXEC:      result[0]: f32[2,2] = {{\[}}[1.0, 2.0],
// EXEC-NEXT: [2.0, 3.0]]
// EXEC-NEXT: result[1]: f32[2,3] = {{\[}}[10.0, 2.0, 3.0],
// EXEC-NEXT: [1.0, 2.0, 20.0]]
func.func public @f(%x: tensor<3xf32>, %i: tensor<i32>, %j: tensor<1x1xi32>, %u: tensor<f32>) -> (tensor<2xf32>, tensor<3xf32>) {
  %0 = "jaxpr.dynamic_slice"(%x, %i) {slice_sizes = array<i64: 2>} : (tensor<3xf32>, tensor<i32>) -> tensor<2xf32>
  %1 = "jaxpr.reshape"(%u) {new_sizes = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %2 = "jaxpr.scatter"(%x, %j, %1) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "FILL_OR_DROP"}} : (tensor<3xf32>, tensor<1x1xi32>, tensor<1xf32>) -> tensor<3xf32>
  return %0, %2 : tensor<2xf32>, tensor<3xf32>
}
