// csr_fromdense: The CSR matrix of a dense one, with room for nse elements.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.csr_fromdense"(%{{.*}}) {index_dtype = i32, nse = 3 : i64} : (tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>)
// HLO: stablehlo.compare NE
// EXEC: result[0]: f32[3] = [1.0, 2.0, 3.0]
// EXEC: result[1]: i32[3] = [0, 2, 2]
// EXEC: result[2]: i32[3] = [0, 2, 3]
func.func public @csr_fromdense(%arg0: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>) {
  %0:3 = "jaxpr.csr_fromdense"(%arg0) {index_dtype = i32, nse = 3 : i64} : (tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>)
  return %0#0, %0#1, %0#2 : tensor<3xf32>, tensor<3xi32>, tensor<3xi32>
}
