// or: Bitwise or, x | y.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[12, 10], [10, 3]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.or"(%{{.*}}, %{{.*}}) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
// HLO: stablehlo.or %{{.*}}, %{{.*}} : tensor<2xi32>
// EXEC: result: i32[2] = [14, 11]
func.func public @or(%arg0: tensor<2xi32>, %arg1: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "jaxpr.or"(%arg0, %arg1) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
