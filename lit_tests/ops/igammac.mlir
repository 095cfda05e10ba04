// igammac: Regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, 3.0], [0.5, 1.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.igammac"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.compare NE, %{{.*}}, %{{.*}}, FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// HLO: stablehlo.compare NE, %{{.*}}, %{{.*}}, FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// HLO: stablehlo.or %{{.*}}, %{{.*}} : tensor<2xi1>
// EXEC: result: f32[2] = [0.90979{{[0-9]*}}, 0.8088{{[0-9]*}}]
func.func public @igammac(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.igammac"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
