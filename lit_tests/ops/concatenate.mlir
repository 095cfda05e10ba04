// concatenate: Joins the operands along a dimension.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0], [3.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.concatenate"(%{{.*}}, %{{.*}}) {dimension = 0 : i64} : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
// HLO: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 0 : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
// EXEC: result: f32[3] = [1.0, 2.0, 3.0]
func.func public @concatenate(%arg0: tensor<2xf32>, %arg1: tensor<1xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.concatenate"(%arg0, %arg1) {dimension = 0 : i64} : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
