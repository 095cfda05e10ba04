// bcoo_fromdense: The BCOO array of a dense one.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcoo_fromdense"(%{{.*}}) {index_dtype = {scalar_type = i32}, n_batch = 0 : i64, n_dense = 0 : i64, nse = 3 : i64} : (tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3x2xi32>)
// HLO: stablehlo.compare NE, %{{.*}}, %{{.*}}, FLOAT : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<6xi32>
// EXEC: result[0]: f32[3] = [1.0, 2.0, 3.0]
// EXEC: result[1]: i32[3,2] = {{\[\[}}0, 0],
// EXEC-NEXT: [0, 2],
// EXEC-NEXT: [1, 2]]
func.func public @bcoo_fromdense(%arg0: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3x2xi32>) {
  %0:2 = "jaxpr.bcoo_fromdense"(%arg0) {index_dtype = {scalar_type = i32}, n_batch = 0 : i64, n_dense = 0 : i64, nse = 3 : i64} : (tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3x2xi32>
}
