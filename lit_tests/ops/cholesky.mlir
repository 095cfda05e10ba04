// cholesky: Lower triangular L with L L^H = x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[4.0, 2.0], [2.0, 5.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.cholesky"(%{{.*}}) : (tensor<2x2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.custom_call @lapack_spotrf_ffi(%{{.*}})
// EXEC: result: f32[2,2] = {{\[\[}}2.0, 0.0],
// EXEC-NEXT: [1.0, 2.0]]
func.func public @cholesky(%arg0: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = "jaxpr.cholesky"(%arg0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 2, 2>} : () -> tensor<2x2xi32>
  %2 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %3 = "jaxpr.add"(%1, %2) : (tensor<2x2xi32>, tensor<i32>) -> tensor<2x2xi32>
  %4 = "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 2, 2>} : () -> tensor<2x2xi32>
  %5 = "jaxpr.ge"(%3, %4) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
  %6 = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %7 = "jaxpr.broadcast_in_dim"(%6) {broadcast_dimensions = [], shape = array<i64: 2, 2>} : (tensor<f32>) -> tensor<2x2xf32>
  %8 = "jaxpr.select_n"(%5, %7, %0) : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %8 : tensor<2x2xf32>
}
