// lu_pivots_to_permutation: The permutation that a sequence of row exchanges amounts to.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2, 2]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.lu_pivots_to_permutation"(%{{.*}}) {permutation_size = 3 : i64} : (tensor<2xi32>) -> tensor<3xi32>
// HLO: stablehlo.iota dim = 0 : tensor<3xi32>
// HLO: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<2xi32>, tensor<i32>, tensor<i32>, tensor<3xi32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// EXEC: result: i32[3] = [2, 0, 1]
func.func public @lu_pivots_to_permutation(%arg0: tensor<2xi32>) -> tensor<3xi32> {
  %0 = "jaxpr.lu_pivots_to_permutation"(%arg0) {permutation_size = 3 : i64} : (tensor<2xi32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}
