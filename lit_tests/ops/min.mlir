// min: The smaller of x and y; NaN if either is NaN.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 4.0], [3.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.min"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.minimum %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 2.0]
func.func public @min(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.min"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
