// random_gamma: Gamma samples of shape parameter a; operands (key, a); their logarithms in log
// space.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0, 0], [2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.random_gamma"(%{{.*}}, %{{.*}}) : (tensor<!jaxpr.key<"fry">>, tensor<1xf32>) -> tensor<1xf32>
// HLO: stablehlo.compare GE, %{{.*}}, %{{.*}}, FLOAT : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<1xf32>
// HLO: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<1xi1>, tensor<1xf32>
// EXEC: result: f32[1] = [1.5897{{[0-9]*}}]
func.func public @random_gamma(%arg0: tensor<!jaxpr.key<"fry">>, %arg1: tensor<1xf32>) -> tensor<1xf32> {
  %0 = "jaxpr.random_gamma"(%arg0, %arg1) : (tensor<!jaxpr.key<"fry">>, tensor<1xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
