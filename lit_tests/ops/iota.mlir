// iota: x[i] = i along one dimension, constant along the others.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 2, 3>} : () -> tensor<2x3xi32>
// HLO: stablehlo.iota dim = 1 : tensor<2x3xi32>
// EXEC: result: i32[2,3] = {{\[\[}}0, 1, 2],
// EXEC-NEXT: [0, 1, 2]]
func.func public @iota() -> tensor<2x3xi32> {
  %0 = "jaxpr.iota"() {dimension = 1 : i64, dtype = i32, shape = array<i64: 2, 3>} : () -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}
