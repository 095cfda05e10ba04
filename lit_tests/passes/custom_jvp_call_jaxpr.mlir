// A function with its own JVP rule, which calls the function: a sine with the slope 5 cos(x), so that
// the numbers show whether the rule was used.
//
// The derivative calls the rule. Linearization splits the rule: @sine_jvp.fwd is the part that does
// not need the tangent, and @sine_jvp.lin is linear in the tangent. Batching batches function and
// rule, and the batched rule calls the batched function.

// RUN: jaxmlir-opt --jaxpr-jvp %s -o %t.jvp
// RUN: FileCheck %s --check-prefix=JVP < %t.jvp
// RUN: jaxmlir-opt --jaxpr-linearize %s | FileCheck %s --check-prefix=LIN
// RUN: jaxmlir-opt --jaxpr-vjp %s -o %t.vjp
// RUN: FileCheck %s --check-prefix=BWD < %t.vjp
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=0' %s -o %t.vmap
// RUN: FileCheck %s --check-prefix=VMAP < %t.vmap
// RUN: jaxmlir-opt --jaxpr-jvp=func=f.jvp %t.jvp -o %t.second
// RUN: jaxmlir-run %t.jvp --entry=f.jvp --args '0.5, 1.0' | FileCheck %s --check-prefix=FIRST
// RUN: jaxmlir-run %t.second --entry=f.jvp.jvp --args '0.5, 1.0, 1.0, 0.0' | FileCheck %s --check-prefix=SECOND

// JVP:      func.func private @f.jvp(%[[X:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// JVP-NEXT:   %[[OUT:.*]]:2 = "jaxpr.jit"(%[[X]], %[[T]]) {jaxpr = @sine_jvp, name = "sine_jvp"}
// JVP-NEXT:   return %[[OUT]]#0, %[[OUT]]#1

// LIN:      func.func private @f.fwd(%[[X:.*]]: tensor<f32>)
// LIN-NEXT:   %[[OUT:.*]]:2 = "jaxpr.jit"(%[[X]]) {jaxpr = @sine_jvp.fwd
// LIN-NEXT:   return %[[OUT]]#0, %[[OUT]]#1
// LIN:      func.func private @sine_jvp.fwd(%[[X:.*]]: tensor<f32>)
// LIN-NEXT:   %[[SIN:.*]] = "jaxpr.custom_jvp_call_jaxpr"(%[[X]]) {call_jaxpr = @sine, jvp_jaxpr = @sine_jvp}
// LIN:        return %[[SIN]], %{{.*}} : tensor<f32>, tensor<f32>
// LIN:      func.func private @sine_jvp.lin(%[[SLOPE:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// LIN-NEXT:   "jaxpr.mul"(%[[SLOPE]], %[[T]])
// LIN:      func.func private @f.lin(%[[SLOPE:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// LIN-NEXT:   "jaxpr.jit"(%[[SLOPE]], %[[T]]) {jaxpr = @sine_jvp.lin

// BWD:      func.func private @f.bwd(%[[SLOPE:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// BWD-NEXT:   "jaxpr.jit"(%[[SLOPE]], %[[CT]]) {jaxpr = @sine_jvp.bwd

// VMAP:     func.func private @f.vmap
// VMAP-NEXT:  "jaxpr.custom_jvp_call_jaxpr"(%{{.*}}) {call_jaxpr = @sine.vmap, jvp_jaxpr = @sine_jvp.vmap} : (tensor<2xf32>) -> tensor<2xf32>
// VMAP:     func.func private @sine_jvp.vmap(%{{.*}}: tensor<2xf32>, %{{.*}}: tensor<2xf32>)
// VMAP-NEXT:  "jaxpr.custom_jvp_call_jaxpr"(%{{.*}}) {call_jaxpr = @sine.vmap, jvp_jaxpr = @sine_jvp.vmap} : (tensor<2xf32>) -> tensor<2xf32>

// sin(0.5) and 5 cos(0.5); then the derivatives of both: 5 cos(0.5) and -5 sin(0.5)
// FIRST:       result[0]: f32[] = 0.47942{{[0-9]*}}
// FIRST-NEXT:  result[1]: f32[] = 4.38791{{[0-9]*}}
// SECOND:      result[0]: f32[] = 0.47942{{[0-9]*}}
// SECOND-NEXT: result[1]: f32[] = 4.38791{{[0-9]*}}
// SECOND-NEXT: result[2]: f32[] = 4.38791{{[0-9]*}}
// SECOND-NEXT: result[3]: f32[] = -2.39712{{[0-9]*}}
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @sine, jvp_jaxpr = @sine_jvp} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @sine(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @sine_jvp(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @sine, jvp_jaxpr = @sine_jvp} : (tensor<f32>) -> tensor<f32>
  %five = "jaxpr.constant"() {value = dense<5.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.cos"(%x) : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.mul"(%five, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = "jaxpr.mul"(%2, %t) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %3 : tensor<f32>, tensor<f32>
}
