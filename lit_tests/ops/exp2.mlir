// exp2: Power of two, 2 ** x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[3.0, 0.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.exp2"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// HLO: stablehlo.exponential %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [8.0, 1.4142{{[0-9]*}}]
func.func public @exp2(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.exp2"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
