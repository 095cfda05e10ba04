// div: Elementwise quotient, x / y; for integers, rounded towards zero.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[7, -7], [2, 2]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.div"(%{{.*}}, %{{.*}}) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
// HLO: stablehlo.divide %{{.*}}, %{{.*}} : tensor<2xi32>
// EXEC: result: i32[2] = [3, -3]
func.func public @div(%arg0: tensor<2xi32>, %arg1: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "jaxpr.div"(%arg0, %arg1) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
