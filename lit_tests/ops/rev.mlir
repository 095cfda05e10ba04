// rev: Reverses the order of the elements along dimensions.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.rev"(%{{.*}}) {dimensions = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// HLO: stablehlo.reverse %{{.*}}, dims = [1] : tensor<2x3xf32>
// EXEC: result: f32[2,3] = {{\[\[}}3.0, 2.0, 1.0],
// EXEC-NEXT: [6.0, 5.0, 4.0]]
func.func public @rev(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "jaxpr.rev"(%arg0) {dimensions = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
