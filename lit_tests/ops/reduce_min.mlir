// reduce_min: Smallest element over axes; NaN if any is NaN.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reduce_min"(%{{.*}}) {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
// HLO: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.minimum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 4.0]
func.func public @reduce_min(%arg0: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.reduce_min"(%arg0) {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
