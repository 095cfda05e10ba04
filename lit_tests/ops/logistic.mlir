// logistic: Logistic function, 1 / (1 + e ** -x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.0, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.logistic"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.negate %{{.*}} : tensor<2xf32>
// HLO: stablehlo.exponential %{{.*}} : tensor<2xf32>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [0.5, 0.7310{{[0-9]*}}]
func.func public @logistic(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.logistic"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
