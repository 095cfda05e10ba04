// bcsr_fromdense: The BCSR array of a dense one.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcsr_fromdense"(%{{.*}}) {index_dtype = {scalar_type = i32}, n_batch = 0 : i64, n_dense = 0 : i64, nse = 3 : i64} : (tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>)
// HLO: stablehlo.compare NE, %{{.*}}, %{{.*}}, FLOAT : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<6xi32>
// EXEC: result[0]: f32[3] = [1.0, 2.0, 3.0]
// EXEC: result[1]: i32[3] = [0, 2, 2]
// EXEC: result[2]: i32[3] = [0, 2, 3]
func.func public @bcsr_fromdense(%arg0: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>) {
  %0:3 = "jaxpr.bcsr_fromdense"(%arg0) {index_dtype = {scalar_type = i32}, n_batch = 0 : i64, n_dense = 0 : i64, nse = 3 : i64} : (tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>)
  return %0#0, %0#1, %0#2 : tensor<3xf32>, tensor<3xi32>, tensor<3xi32>
}
