// lt: x < y.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.lt"(%{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
// EXEC: result: bool[3] = [True, False, False]
func.func public @lt(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xi1> {
  %0 = "jaxpr.lt"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  return %0 : tensor<3xi1>
}
