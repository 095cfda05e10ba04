// A VJP rule that was told which tangents and cotangents are zero. f(x, k) = (2x, 2k), and only the
// first result is used. The derivative by both arguments calls @bwd_first, which takes no cotangent of
// the second result. The derivative by x alone calls @fwd_x, which stores no residual, and the
// backward rules of @fwd_x. The numbers show which rule was used.

// RUN: jaxmlir-opt --jaxpr-vjp %s -o %t.both
// RUN: FileCheck %s --check-prefix=BOTH < %t.both
// RUN: jaxmlir-opt --jaxpr-vjp=argnums=0 %s -o %t.x
// RUN: FileCheck %s --check-prefix=X < %t.x
// RUN: jaxmlir-run %t.x --entry=f.bwd --args '1.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-linearize=argnums=0 %s | FileCheck %s --check-prefix=LIN
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=0,-1' %s -o %t.vmap
// RUN: FileCheck %s --check-prefix=VMAP < %t.vmap
// RUN: jaxmlir-opt --jaxpr-vjp='func=f.vmap argnums=0' %t.vmap -o %t.grad
// RUN: jaxmlir-run %t.grad --entry=f.vmap.bwd --args '[1.0, 10.0]' | FileCheck %s --check-prefix=ROWS

// BOTH:      func.func private @f.bwd(%[[K:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// BOTH-NEXT:   "jaxpr.jit"(%[[K]], %[[CT]]) {jaxpr = @bwd_first
// X:      func.func private @f.fwd
// X-NEXT:   "jaxpr.jit"(%{{.*}}) {jaxpr = @fwd_x
// X:      func.func private @f.bwd(%[[CT:.*]]: tensor<f32>) -> tensor<f32>
// X-NEXT:   "jaxpr.jit"(%[[CT]]) {jaxpr = @bwd_x_first
// EXEC: result: f32[] = 5.0
// LIN: "jaxpr.custom_lin"(%{{.*}}) {bwd = @bwd_x, bwd_with_zeros = [@bwd_x_first], in_zeros = array<i1: false, true>, num_res = 0 : i64, symbolic_zeros = true}
// VMAP: vjp_with_zeros = {{\[\[}}@fwd.vmap, @bwd_first.vmap], [@fwd_x.vmap, @bwd_x.vmap, @bwd_x_first.vmap]]
// VMAP: func.func private @bwd_x_first.vmap(%{{.*}}: tensor<2xf32>) -> tensor<2xf32> attributes {jaxpr.in_zeros = array<i1: false, true>, jaxpr.out_zeros = array<i1: false, true>}
// ROWS: result: f32[2] = [5.0, 50.0]
func.func public @f(%x: tensor<f32>, %k: tensor<f32>) -> tensor<f32> {
  %0:2 = "jaxpr.custom_vjp_call_jaxpr"(%x, %k) {call_jaxpr = @twice, fwd_jaxpr = @fwd, bwd_jaxpr = @bwd, symbolic_zeros = true, vjp_with_zeros = [[@fwd, @bwd_first], [@fwd_x, @bwd_x, @bwd_x_first]]} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0 : tensor<f32>
}
func.func private @twice(%x: tensor<f32>, %k: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%k, %k) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
func.func private @fwd(%x: tensor<f32>, %k: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {jaxpr.input_fwds = array<i64: 1>, jaxpr.num_res = 1 : i64} {
  %0:2 = "jaxpr.jit"(%x, %k) {jaxpr = @twice, name = "twice"} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
func.func private @bwd(%k: tensor<f32>, %ct0: tensor<f32>, %ct1: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  return %ct0, %ct1 : tensor<f32>, tensor<f32>
}
func.func private @bwd_first(%k: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> attributes {jaxpr.in_zeros = array<i1: false, true>, jaxpr.out_zeros = array<i1: false, true>} {
  %0 = "jaxpr.mul"(%k, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @fwd_x(%x: tensor<f32>, %k: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {jaxpr.in_zeros = array<i1: false, true>} {
  %0:2 = "jaxpr.jit"(%x, %k) {jaxpr = @twice, name = "twice"} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
func.func private @bwd_x(%ct0: tensor<f32>, %ct1: tensor<f32>) -> tensor<f32> attributes {jaxpr.out_zeros = array<i1: false, true>} {
  return %ct0 : tensor<f32>
}
func.func private @bwd_x_first(%ct: tensor<f32>) -> tensor<f32> attributes {jaxpr.in_zeros = array<i1: false, true>, jaxpr.out_zeros = array<i1: false, true>} {
  %five = "jaxpr.constant"() {value = dense<5.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.mul"(%five, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
