// sinh: Hyperbolic sine, (e ** x - e ** -x) / 2.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.sinh"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.sinh %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [0.52109{{[0-9]*}}, 27.2{{[0-9]*}}]
func.func public @sinh(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sinh"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
