// custom_linear_solve: The x with matvec(x) = b, found by the function solve; operands (*consts,
// *b).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, 4.0], [10.0, 10.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.custom_linear_solve"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {const_lengths = {_LinearSolveTuple = {matvec = 1 : i64, solve = 1 : i64, transpose_solve = 1 : i64, vecmat = 1 : i64}}, jaxprs = {_LinearSolveTuple = {matvec = @lambda, solve = @lambda_0, transpose_solve = @lambda_1, vecmat = @lambda}}} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.divide %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [5.0, 2.5]
func.func public @custom_linear_solve(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.custom_linear_solve"(%arg0, %arg0, %arg0, %arg0, %arg1) {const_lengths = {_LinearSolveTuple = {matvec = 1 : i64, solve = 1 : i64, transpose_solve = 1 : i64, vecmat = 1 : i64}}, jaxprs = {_LinearSolveTuple = {matvec = @lambda, solve = @lambda_0, transpose_solve = @lambda_1, vecmat = @lambda}}} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda_0(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.div"(%arg1, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda_1(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.div"(%arg1, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
