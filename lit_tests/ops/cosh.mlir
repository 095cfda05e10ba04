// cosh: Hyperbolic cosine, (e ** x + e ** -x) / 2.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.cosh"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.cosh %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [1.1276{{[0-9]*}}, 27.308{{[0-9]*}}]
func.func public @cosh(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.cosh"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
