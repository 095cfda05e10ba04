// lt_to: x < y in the total order of floats: -0 before 0, NaN last.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-0.0, -0.0], [0.0, -0.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.lt_to"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, TOTALORDER : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// EXEC: result: bool[2] = [True, False]
func.func public @lt_to(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xi1> {
  %0 = "jaxpr.lt_to"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}
