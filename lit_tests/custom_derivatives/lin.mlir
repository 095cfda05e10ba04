// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s 2>&1 | FileCheck %s --check-prefix=LOWER
// RUN: jaxmlir-run %s --entry=bwd --args '2.0, 5.0' | FileCheck %s --check-prefix=BWD

// Only the transpose of a custom_lin is known. The op occurs in programs between linearization and
// transposition, and cannot be run.

// CHECK: "jaxpr.custom_lin"(%arg0, %arg1) {bwd = @bwd, in_zeros = array<i1: false>, num_res = 1 : i64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// LOWER: lin.mlir:{{[0-9]+}}:{{[0-9]+}}: error: 'jaxpr.custom_lin' op
// BWD: result: f32[] = 10.0
func.func public @f(%res: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_lin"(%res, %t) {bwd = @bwd, in_zeros = array<i1: false>, num_res = 1 : i64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @bwd(%res: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%res, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
