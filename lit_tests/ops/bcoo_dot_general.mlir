// bcoo_dot_general: Contraction of a BCOO array with a dense one.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [[0, 0], [0, 2], [1, 2]], [[1.0], [10.0], [100.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcoo_dot_general"(%{{.*}}, %{{.*}}, %{{.*}}) {dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 0>], {{\[\[}}], []]], lhs_spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}, preferred_element_type = f32} : (tensor<3xf32>, tensor<3x2xi32>, tensor<3x1xf32>) -> tensor<2x1xf32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xi32>
// HLO: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xi32>
// EXEC: result: f32[2,1] = {{\[\[}}201.0],
// EXEC-NEXT: [300.0]]
func.func public @bcoo_dot_general(%arg0: tensor<3xf32>, %arg1: tensor<3x2xi32>, %arg2: tensor<3x1xf32>) -> tensor<2x1xf32> {
  %0 = "jaxpr.bcoo_dot_general"(%arg0, %arg1, %arg2) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], lhs_spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}, preferred_element_type = f32} : (tensor<3xf32>, tensor<3x2xi32>, tensor<3x1xf32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}
