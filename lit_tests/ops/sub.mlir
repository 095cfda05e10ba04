// sub: Elementwise difference, x - y.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.5, 2.5], [3.0, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.sub"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.subtract %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [-1.5, 1.5]
func.func public @sub(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sub"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
