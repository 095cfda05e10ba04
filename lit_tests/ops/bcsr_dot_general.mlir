// bcsr_dot_general: Contraction of a BCSR array with a dense one.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [0, 2, 2], [0, 2, 3], [[1.0], [10.0], [100.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcsr_dot_general"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dimension_numbers = {{\[\[}}array<i64: 1>, array<i64: 0>], {{\[\[}}], []]], lhs_spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}, preferred_element_type = f32} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3x1xf32>) -> tensor<2x1xf32>
// HLO: stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// EXEC: result: f32[2,1] = {{\[\[}}201.0],
// EXEC-NEXT: [300.0]]
func.func public @bcsr_dot_general(%arg0: tensor<3xf32>, %arg1: tensor<3xi32>, %arg2: tensor<3xi32>, %arg3: tensor<3x1xf32>) -> tensor<2x1xf32> {
  %0 = "jaxpr.bcsr_dot_general"(%arg0, %arg1, %arg2, %arg3) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], lhs_spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}, preferred_element_type = f32} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3x1xf32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}
