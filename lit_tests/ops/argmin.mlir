// argmin: Index of the first smallest element along one axis.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.argmin"(%{{.*}}) {axes = array<i64: 1>, index_dtype = i32} : (tensor<2x3xf32>) -> tensor<2xi32>
// HLO: stablehlo.iota dim = 1 : tensor<2x3xi32>
// HLO: stablehlo.reduce(%{{.*}} init: %{{.*}}), (%{{.*}} init: %{{.*}}) across dimensions = [1] : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
// EXEC: result: i32[2] = [0, 2]
func.func public @argmin(%arg0: tensor<2x3xf32>) -> tensor<2xi32> {
  %0 = "jaxpr.argmin"(%arg0) {axes = array<i64: 1>, index_dtype = i32} : (tensor<2x3xf32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
