// acosh: Inverse hyperbolic cosine, the y >= 0 with cosh(y) = x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.5, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.acosh"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.acosh %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [0.9624{{[0-9]*}}, 2.0634{{[0-9]*}}]
func.func public @acosh(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.acosh"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
