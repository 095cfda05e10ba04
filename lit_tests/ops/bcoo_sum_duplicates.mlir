// bcoo_sum_duplicates: The same BCOO array, with elements at equal indices summed.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [[0, 0], [1, 2], [0, 0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcoo_sum_duplicates"(%{{.*}}, %{{.*}}) {nse = 2 : i64, spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}} : (tensor<3xf32>, tensor<3x2xi32>) -> (tensor<2xf32>, tensor<2x2xi32>)
// HLO: stablehlo.compare GE, %{{.*}}, %{{.*}}, SIGNED : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
// HLO: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.or across dimensions = [1] : (tensor<3x2xi1>, tensor<i1>) -> tensor<3xi1>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
// EXEC: result[0]: f32[2] = [4.0, 2.0]
// EXEC: result[1]: i32[2,2] = {{\[\[}}0, 0],
// EXEC-NEXT: [1, 2]]
func.func public @bcoo_sum_duplicates(%arg0: tensor<3xf32>, %arg1: tensor<3x2xi32>) -> (tensor<2xf32>, tensor<2x2xi32>) {
  %0:2 = "jaxpr.bcoo_sum_duplicates"(%arg0, %arg1) {nse = 2 : i64, spinfo = {SparseInfo = {shape = array<i64: 2, 3>}}} : (tensor<3xf32>, tensor<3x2xi32>) -> (tensor<2xf32>, tensor<2x2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2x2xi32>
}
