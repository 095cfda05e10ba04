// bcoo_sort_indices: The same BCOO array with sorted indices.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [[1, 2], [0, 0], [0, 2]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcoo_sort_indices"(%{{.*}}, %{{.*}}) {spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}} : (tensor<3xf32>, tensor<3x2xi32>) -> (tensor<3xf32>, tensor<3x2xi32>)
// HLO: stablehlo.slice %{{.*}} [0:3, 0:1] : (tensor<3x2xi32>) -> tensor<3x1xi32>
// HLO: stablehlo.slice %{{.*}} [0:3, 1:2] : (tensor<3x2xi32>) -> tensor<3x1xi32>
// HLO: stablehlo.iota dim = 0 : tensor<3xi32>
// EXEC: result[0]: f32[3] = [2.0, 3.0, 1.0]
// EXEC: result[1]: i32[3,2] = {{\[\[}}0, 0],
// EXEC-NEXT: [0, 2],
// EXEC-NEXT: [1, 2]]
func.func public @bcoo_sort_indices(%arg0: tensor<3xf32>, %arg1: tensor<3x2xi32>) -> (tensor<3xf32>, tensor<3x2xi32>) {
  %0:2 = "jaxpr.bcoo_sort_indices"(%arg0, %arg1) {spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}} : (tensor<3xf32>, tensor<3x2xi32>) -> (tensor<3xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3x2xi32>
}
