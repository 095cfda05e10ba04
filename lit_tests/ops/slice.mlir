// slice: Rectangular slice, x[start:limit:stride] along every dimension.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.slice"(%{{.*}}) {limit_indices = array<i64: 4>, start_indices = array<i64: 0>, strides = array<i64: 2>} : (tensor<4xf32>) -> tensor<2xf32>
// HLO: stablehlo.slice %{{.*}} [0:4:2] : (tensor<4xf32>) -> tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 3.0]
func.func public @slice(%arg0: tensor<4xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.slice"(%arg0) {limit_indices = array<i64: 4>, start_indices = array<i64: 0>, strides = array<i64: 2>} : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
