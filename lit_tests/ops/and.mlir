// and: Bitwise and, x & y.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[12, 10], [10, 3]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.and"(%{{.*}}, %{{.*}}) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
// HLO: stablehlo.and %{{.*}}, %{{.*}} : tensor<2xi32>
// EXEC: result: i32[2] = [8, 2]
func.func public @and(%arg0: tensor<2xi32>, %arg1: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "jaxpr.and"(%arg0, %arg1) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
