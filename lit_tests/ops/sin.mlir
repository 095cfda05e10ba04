// sin: Sine, sin(x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.0, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.sin"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.sine %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [0.0, 0.8414{{[0-9]*}}]
func.func public @sin(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sin"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
