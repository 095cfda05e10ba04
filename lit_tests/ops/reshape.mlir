// reshape: The same elements in row-major order in another shape; `dimensions` permutes first.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reshape"(%{{.*}}) {new_sizes = array<i64: 3, 2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
// HLO: stablehlo.reshape %{{.*}} : (tensor<2x3xf32>) -> tensor<3x2xf32>
// EXEC: result: f32[3,2] = {{\[\[}}1.0, 2.0],
// EXEC-NEXT: [3.0, 4.0],
// EXEC-NEXT: [5.0, 6.0]]
func.func public @reshape(%arg0: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "jaxpr.reshape"(%arg0) {new_sizes = array<i64: 3, 2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
