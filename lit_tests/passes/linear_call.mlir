// RUN: jaxmlir-opt --jaxpr-linearize=argnums=1 --jaxpr-verify %s | FileCheck %s --check-prefix=LIN
// RUN: jaxmlir-opt --jaxpr-vjp=argnums=1 --jaxpr-verify %s | FileCheck %s --check-prefix=BWD
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=-1,0' --jaxpr-verify %s | FileCheck %s --check-prefix=VMAP
// RUN: jaxmlir-run %s --args '2.0, 3.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-vjp=argnums=1 %s -o %t
// RUN: jaxmlir-run %t --entry=f.bwd --args '2.0, 1.0' | FileCheck %s --check-prefix=EXEC-BWD
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=-1,0' %s -o %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '2.0, [3.0, 4.0]' | FileCheck %s --check-prefix=EXEC-VMAP

// A linear_call is a function f(r, x) that is linear in x, with its transpose. The op is its own
// derivative, and transposing the op swaps its functions. Here the given transpose is not the true
// transpose, which shows where it is used.

// LIN-LABEL: func.func private @f.lin(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32>
// LIN: "jaxpr.linear_call"(%arg0, %arg1) {callee = @scale, num_res = 1 : i64, transpose = @scale_back}

// BWD-LABEL: func.func private @f.bwd(
// BWD: "jaxpr.linear_call"(%{{.*}}, %{{.*}}) {callee = @scale_back, num_res = 1 : i64, transpose = @scale}

// Batching batches both functions. A residual that all elements share stays as it is.

// VMAP-LABEL: func.func private @f.vmap(%arg0: tensor<f32>, %arg1: tensor<2xf32>) -> tensor<2xf32>
// VMAP: "jaxpr.linear_call"(%arg0, %arg1) {callee = @scale.vmap, num_res = 1 : i64, transpose = @scale_back.vmap}
// VMAP-LABEL: func.func private @scale.vmap(%arg0: tensor<f32>, %arg1: tensor<2xf32>) -> tensor<2xf32>
// VMAP-LABEL: func.func private @scale_back.vmap(%arg0: tensor<f32>, %arg1: tensor<2xf32>) -> tensor<2xf32>

// EXEC: result: f32[] = 6.0
// EXEC-BWD: result: f32[] = 200.0
// EXEC-VMAP: result: f32[2] = [6.0, 8.0]
func.func public @f(%r: tensor<f32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.linear_call"(%r, %x) {callee = @scale, num_res = 1 : i64, transpose = @scale_back} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @scale(%r: tensor<f32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%r, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @scale_back(%r: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%r, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.constant"() {value = dense<1.0e+02> : tensor<f32>} : () -> tensor<f32>
  %2 = "jaxpr.mul"(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
