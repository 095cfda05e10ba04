// digamma: Digamma function, the derivative of lgamma.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 1.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.digamma"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.digamma %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [-1.9635{{[0-9]*}}, 0.0364{{[0-9]*}}]
func.func public @digamma(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.digamma"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
