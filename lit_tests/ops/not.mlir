// not: Bitwise complement, ~x; for booleans, the negation.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0, 5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.not"(%{{.*}}) : (tensor<2xi32>) -> tensor<2xi32>
// HLO: stablehlo.not %{{.*}} : tensor<2xi32>
// EXEC: result: i32[2] = [-1, -6]
func.func public @not(%arg0: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "jaxpr.not"(%arg0) : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
