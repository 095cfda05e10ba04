// A function with its own VJP rule: f(x) = 2x, and the rule multiplies cotangents by 3.
//
// The linearization is the forward rule and a custom_lin, of which only the transpose is known.
// Transposition replaces the custom_lin by the backward rule. Batching batches all three functions. The
// second operand, k, is not batched: its cotangent, 7 k ct for each row, is summed over the batch.

// RUN: jaxmlir-opt --jaxpr-linearize %s -o %t.lin
// RUN: FileCheck %s --check-prefix=LIN < %t.lin
// RUN: not jaxmlir-run %t.lin --entry=f.lin --args '0.5, 1.0, 0.0' 2>&1 | FileCheck %s --check-prefix=FORWARD
// RUN: jaxmlir-opt --jaxpr-vjp %s | FileCheck %s --check-prefix=VJP
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=0,-1' %s -o %t.vmap
// RUN: FileCheck %s --check-prefix=VMAP < %t.vmap
// RUN: jaxmlir-opt --jaxpr-vjp=func=f.vmap %t.vmap -o %t.grad
// RUN: jaxmlir-run %t.grad --entry=f.vmap.bwd --args '0.5, [1.0, 10.0]' | FileCheck %s --check-prefix=EXEC

// LIN:      func.func private @f.fwd(%[[X:.*]]: tensor<f32>, %[[K:.*]]: tensor<f32>)
// LIN-NEXT:   %[[Y:.*]] = "jaxpr.jit"(%[[X]], %[[K]]) {jaxpr = @fwd
// LIN-NEXT:   return %[[Y]], %[[K]]
// LIN:      func.func private @f.lin(%[[K:.*]]: tensor<f32>, %[[DX:.*]]: tensor<f32>, %[[DK:.*]]: tensor<f32>)
// LIN-NEXT:   "jaxpr.custom_lin"(%[[K]], %[[DX]], %[[DK]]) {bwd = @bwd, in_zeros = array<i1: false, false>, num_res = 1 : i64}
// FORWARD: error: 'jaxpr.custom_lin' op cannot be lowered

// VJP:      func.func private @f.bwd(%[[K:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// VJP-NEXT:   %[[CTS:.*]]:2 = "jaxpr.jit"(%[[K]], %[[CT]]) {jaxpr = @bwd
// VJP-NEXT:   return %[[CTS]]#0, %[[CTS]]#1

// VMAP:      func.func private @f.vmap(%{{.*}}: tensor<2xf32>, %{{.*}}: tensor<f32>) -> tensor<2xf32>
// VMAP-NEXT:   "jaxpr.custom_vjp_call_jaxpr"(%{{.*}}) {bwd_jaxpr = @bwd.vmap, call_jaxpr = @twice.vmap, fwd_jaxpr = @fwd.vmap}
// VMAP:      func.func private @fwd.vmap
// VMAP-SAME: attributes {jaxpr.input_fwds = array<i64: 1>, jaxpr.num_res = 1 : i64}
// VMAP:      func.func private @bwd.vmap(%{{.*}}: tensor<f32>, %{{.*}}: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>)
// VMAP:        "jaxpr.reduce_sum"

// EXEC:      result[0]: f32[2] = [3.0, 30.0]
// EXEC-NEXT: result[1]: f32[] = 38.5
func.func public @f(%x: tensor<f32>, %k: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x, %k) {call_jaxpr = @twice, fwd_jaxpr = @fwd, bwd_jaxpr = @bwd} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @twice(%x: tensor<f32>, %k: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @fwd(%x: tensor<f32>, %k: tensor<f32>) -> tensor<f32> attributes {jaxpr.input_fwds = array<i64: 1>, jaxpr.num_res = 1 : i64} {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x, %k) {call_jaxpr = @twice, fwd_jaxpr = @fwd, bwd_jaxpr = @bwd} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @bwd(%k: tensor<f32>, %ct: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %three = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %seven = "jaxpr.constant"() {value = dense<7.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.mul"(%three, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%seven, %k) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.mul"(%1, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %2 : tensor<f32>, tensor<f32>
}
