// asin: Arc sine, the y in [-pi/2, pi/2] with sin(y) = x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-0.5, 0.25]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.asin"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: {{chlo.asin|stablehlo.atan2}}
// EXEC: result: f32[2] = [-0.523{{[0-9]*}}, 0.2526{{[0-9]*}}]
func.func public @asin(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.asin"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
