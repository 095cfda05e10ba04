// checkpointed_while: As while; with `record`, buffers of the kept states and their positions
// follow the carry: (*condition consts, *body consts, *carry) -> (*carry, *buffers, rows,
// positions, steps).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '3.0, 1.0' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.checkpointed_while"(%{{.*}}, %{{.*}}) {body_jaxpr = @lambda_0, body_nconsts = 1 : i64, checkpoints = 2 : i64, cond_jaxpr = @lambda, record = true} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>)
// HLO: stablehlo.while
// EXEC: result[0]: f32[] = 243.0
// EXEC: result[1]: f32[3] = [1.0, 27.0, 81.0]
// EXEC: result[2]: i32[3] = [0, 1, 2]
// EXEC: result[3]: i32[3] = [0, 3, 4]
// EXEC: result[4]: i32[] = 5
func.func public @checkpointed_while(%arg0: tensor<f32>, %arg1: tensor<f32>) -> (tensor<f32>, tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>) {
  %0:5 = "jaxpr.checkpointed_while"(%arg0, %arg1) {body_jaxpr = @lambda_0, body_nconsts = 1 : i64, checkpoints = 2 : i64, cond_jaxpr = @lambda, record = true} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>)
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<f32>, tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>
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
