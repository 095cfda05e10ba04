// linear_call: Calls a function that is linear in its last operands and has its own transpose;
// operands (*callee consts, *residuals, *linear operands).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, 3.0], [1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.linear_call"(%{{.*}}, %{{.*}}) {callee = @lambda, num_res = 1 : i64, transpose = @lambda_0} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [2.0, 6.0]
func.func public @linear_call(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.linear_call"(%arg0, %arg1) {callee = @lambda, num_res = 1 : i64, transpose = @lambda_0} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda_0(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
