// reduce_and: Bitwise and over axes; for booleans, `all`.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[True, True], [True, False]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reduce_and"(%{{.*}}) {axes = array<i64: 1>} : (tensor<2x2xi1>) -> tensor<2xi1>
// HLO: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.and across dimensions = [1] : (tensor<2x2xi1>, tensor<i1>) -> tensor<2xi1>
// EXEC: result: bool[2] = [True, False]
func.func public @reduce_and(%arg0: tensor<2x2xi1>) -> tensor<2xi1> {
  %0 = "jaxpr.reduce_and"(%arg0) {axes = array<i64: 1>} : (tensor<2x2xi1>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}
