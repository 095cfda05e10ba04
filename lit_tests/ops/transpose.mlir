// transpose: Permutes the dimensions: result dimension i is operand dimension permutation[i].

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.transpose"(%{{.*}}) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
// HLO: stablehlo.transpose %{{.*}}, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
// EXEC: result: f32[3,2] = {{\[\[}}1.0, 4.0],
// EXEC-NEXT: [2.0, 5.0],
// EXEC-NEXT: [3.0, 6.0]]
func.func public @transpose(%arg0: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "jaxpr.transpose"(%arg0) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
