// linear_call: Calls a function that is linear in its last operands and has its own transpose;
// operands (*callee consts, *residuals, *linear operands).

// RUN: jaxmlir-opt %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER

// It holds a Python object, which text cannot: such an op runs in its own process alone.

// CHECK: "jaxpr.linear_call"(%{{.*}}, %{{.*}}) {callee = @lambda, num_res = 1 : i64, transpose_thunk = {handle = "h0"}} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// OTHER: stands for a Python object of another process
func.func public @linear_call(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.linear_call"(%arg0, %arg1) {callee = @lambda, num_res = 1 : i64, transpose_thunk = {handle = "h0"}} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
