// select_n: Elementwise choice cases[which]; operands (which, *cases); which is boolean or integer.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[True, False], [1.0, 2.0], [3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.select_n"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xf32>
// EXEC: result: f32[2] = [3.0, 2.0]
func.func public @select_n(%arg0: tensor<2xi1>, %arg1: tensor<2xf32>, %arg2: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.select_n"(%arg0, %arg1, %arg2) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
