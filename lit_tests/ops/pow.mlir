// pow: Elementwise power, x ** y.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, 9.0], [3.0, 0.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.pow"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.power %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [8.0, 3.0]
func.func public @pow(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.pow"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
