// squeeze: Drops dimensions of size 1.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.squeeze"(%{{.*}}) {dimensions = array<i64: 0>} : (tensor<1x3xf32>) -> tensor<3xf32>
// HLO: stablehlo.reshape %{{.*}} : (tensor<1x3xf32>) -> tensor<3xf32>
// EXEC: result: f32[3] = [1.0, 2.0, 3.0]
func.func public @squeeze(%arg0: tensor<1x3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.squeeze"(%arg0) {dimensions = array<i64: 0>} : (tensor<1x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
