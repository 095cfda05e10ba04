// reduce_xor: Bitwise exclusive or over axes.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[12, 10, 1]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reduce_xor"(%{{.*}}) {axes = array<i64: 0>} : (tensor<3xi32>) -> tensor<i32>
// HLO: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.xor across dimensions = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
// EXEC: result: i32[] = 7
func.func public @reduce_xor(%arg0: tensor<3xi32>) -> tensor<i32> {
  %0 = "jaxpr.reduce_xor"(%arg0) {axes = array<i64: 0>} : (tensor<3xi32>) -> tensor<i32>
  return %0 : tensor<i32>
}
