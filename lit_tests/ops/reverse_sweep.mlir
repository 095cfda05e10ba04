// reverse_sweep: Visits the states of a loop backwards: (a[k], y[k]) = step(*consts, *x[k],
// *y[k+1]); operands (*condition consts, *consts, *x[0], *record, *y[last]); results (*sums of a,
// *y[0]).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '3.0, 1.0, [1.0, 27.0, 81.0], [0, 1, 2], [0, 3, 4], 5, 1.0' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reverse_sweep"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {advance_jaxpr = @lambda_0, cond_jaxpr = @lambda, nconsts = 1 : i64, step_jaxpr = @lambda_1} : (tensor<f32>, tensor<f32>, tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
// HLO: stablehlo.while
// HLO: stablehlo.while
// HLO: stablehlo.while
// EXEC: result[0]: f32[] = 405.0
// EXEC: result[1]: f32[] = 243.0
func.func public @reverse_sweep(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<3xf32>, %arg3: tensor<3xi32>, %arg4: tensor<3xi32>, %arg5: tensor<i32>, %arg6: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = "jaxpr.reverse_sweep"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6) {advance_jaxpr = @lambda_0, cond_jaxpr = @lambda, nconsts = 1 : i64, step_jaxpr = @lambda_1} : (tensor<f32>, tensor<f32>, tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
func.func private @lambda(%arg0: tensor<f32>) -> tensor<i1> {
  %0 = "jaxpr.constant"() {value = dense<1.000000e+02> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.lt"(%arg0, %0) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func private @lambda_0(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%arg1, %arg0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @lambda_1(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.mul"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%arg2, %arg0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
