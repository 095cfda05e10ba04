// bcoo_spdot_general: Contraction of two BCOO arrays, to a BCOO array.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [[0, 0], [0, 2], [1, 2]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcoo_spdot_general"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 0>], {{\[\[}}], []]], lhs_spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}, preferred_element_type = f32, rhs_spinfo = {SparseInfo = {shape = array<i64: 3, 2>}}} : (tensor<3xf32>, tensor<3x2xi32>, tensor<3xf32>, tensor<3x2xi32>) -> (tensor<4xf32>, tensor<4x2xi32>)
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xi32>
// HLO: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xi32>
// EXEC: result[0]: f32[4] = [5.0, 6.0, 6.0, 9.0]
// EXEC: result[1]: i32[4,2] = {{\[\[}}0, 0],
// EXEC-NEXT: [0, 1],
// EXEC-NEXT: [1, 0],
// EXEC-NEXT: [1, 1]]
func.func public @bcoo_spdot_general(%arg0: tensor<3xf32>, %arg1: tensor<3x2xi32>) -> (tensor<4xf32>, tensor<4x2xi32>) {
  %0:2 = "jaxpr.bcoo_transpose"(%arg0, %arg1) {permutation = array<i64: 1, 0>, spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}} : (tensor<3xf32>, tensor<3x2xi32>) -> (tensor<3xf32>, tensor<3x2xi32>)
  %1:2 = "jaxpr.bcoo_spdot_general"(%arg0, %arg1, %0#0, %0#1) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], lhs_spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}, preferred_element_type = f32, rhs_spinfo = {SparseInfo = {shape = array<i64: 3, 2>}}} : (tensor<3xf32>, tensor<3x2xi32>, tensor<3xf32>, tensor<3x2xi32>) -> (tensor<4xf32>, tensor<4x2xi32>)
  return %1#0, %1#1 : tensor<4xf32>, tensor<4x2xi32>
}
