// erf: Error function, 2/sqrt(pi) times the integral of exp(-t**2) over [0, x].

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 1.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.erf"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.erf %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [0.520{{[0-9]*}}, 0.96610{{[0-9]*}}]
func.func public @erf(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.erf"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
