// remat_opt: The forward rule of a custom_vjp whose residuals may be recomputed: results
// (*residuals, *results); if no residual is used, a call of fun_jaxpr on the operands without the
// consts.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.remat_opt"(%{{.*}}) {fun_jaxpr = @lambda_0, fwd_jaxpr = @lambda, num_res = 1 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// HLO: stablehlo.sine %{{.*}} : tensor<2xf32>
// HLO: stablehlo.cosine %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [0.8414{{[0-9]*}}, 0.909{{[0-9]*}}]
func.func public @remat_opt(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0:2 = "jaxpr.remat_opt"(%arg0) {fun_jaxpr = @lambda_0, fwd_jaxpr = @lambda, num_res = 1 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#1 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.sin"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.cos"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func private @lambda_0(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sin"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
