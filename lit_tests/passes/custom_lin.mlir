// The derivative of a custom_vjp function is a linear map of which only the transpose, @bwd, is known.
// Transposition calls @bwd, and batching batches @bwd. The map can be differentiated in its tangent,
// because it is linear in the tangent, but not in its residual.

// RUN: jaxmlir-opt --jaxpr-transpose=linear=1 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.transpose --args '2.0, 10.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=-1,0' %s -o %t.vmap
// RUN: FileCheck %s --check-prefix=VMAP < %t.vmap
// RUN: jaxmlir-opt --jaxpr-transpose='func=f.vmap linear=1' %t.vmap -o %t.batch
// RUN: jaxmlir-run %t.batch --entry=f.vmap.transpose --args '2.0, [10.0, 20.0]' | FileCheck %s --check-prefix=BATCH
// RUN: jaxmlir-opt --jaxpr-jvp=argnums=1 %s | FileCheck %s --check-prefix=JVP
// RUN: not jaxmlir-opt --jaxpr-jvp=argnums=0 %s 2>&1 | FileCheck %s --check-prefix=RESIDUAL

// CHECK:      func.func private @f.transpose(%[[RES:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// CHECK-NEXT:   %[[OUT:.*]] = "jaxpr.jit"(%[[RES]], %[[CT]]) {jaxpr = @bwd
// CHECK-NEXT:   return %[[OUT]]
// EXEC: result: f32[] = 60.0

// VMAP: "jaxpr.custom_lin"(%{{.*}}) {bwd = @bwd.vmap, in_zeros = array<i1: false>, num_res = 1 : i64} : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
// BATCH: result: f32[2] = [60.0, 120.0]

// JVP:      func.func private @f.jvp(%[[RES:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>, %[[DT:.*]]: tensor<f32>)
// JVP-NEXT:   "jaxpr.custom_lin"(%[[RES]], %[[T]])
// JVP-NEXT:   "jaxpr.custom_lin"(%[[RES]], %[[DT]])

// RESIDUAL: custom_lin.mlir:[[# @LINE + 2]]:{{[0-9]+}}: error: 'jaxpr.custom_lin' op: it is the derivative of a custom_vjp function, and only its transpose is known (@bwd
func.func public @f(%res: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_lin"(%res, %t) {bwd = @bwd, in_zeros = array<i1: false>, num_res = 1 : i64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @bwd(%res: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %three = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.mul"(%three, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%res, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
