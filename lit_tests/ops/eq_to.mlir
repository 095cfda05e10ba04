// eq_to: x == y in the total order of floats: NaN equals NaN, -0 is not 0.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.0, -0.0], [-0.0, -0.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.eq_to"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// HLO: stablehlo.compare EQ, %{{.*}}, %{{.*}}, TOTALORDER : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// EXEC: result: bool[2] = [False, True]
func.func public @eq_to(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xi1> {
  %0 = "jaxpr.eq_to"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}
