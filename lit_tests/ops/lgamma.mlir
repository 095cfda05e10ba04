// lgamma: Logarithm of the absolute value of the gamma function, log|gamma(x)|.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 5.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.lgamma"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: {{chlo.lgamma|stablehlo.count_leading_zeros}}
// EXEC: result: f32[2] = [0.57236{{[0-9]*}}, 3.1780{{[0-9]*}}]
func.func public @lgamma(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.lgamma"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
