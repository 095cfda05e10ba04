// remat_opt: The forward rule of a custom_vjp whose residuals may be recomputed: results
// (*residuals, *results).

// RUN: jaxmlir-opt %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER

// It holds a Python object, which text cannot: such an op runs in its own process alone.

// CHECK: "jaxpr.remat_opt"(%{{.*}}) {fun_jaxpr_thunk = {handle = "h0"}, fwd_jaxpr = @lambda, num_res = 1 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// OTHER: stands for a Python object of another process
func.func public @remat_opt(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0:2 = "jaxpr.remat_opt"(%arg0) {fun_jaxpr_thunk = {handle = "h0"}, fwd_jaxpr = @lambda, num_res = 1 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#1 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.sin"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.cos"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1, %0 : tensor<2xf32>, tensor<2xf32>
}
