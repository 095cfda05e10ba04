// A loop with an unknown number of iterations: forward mode and batching.
//
//   f(a, x) = a^k x, the first that is not below 10

// RUN: jaxmlir-opt --jaxpr-jvp %s -o %t.jvp
// RUN: FileCheck %s --check-prefix=JVP < %t.jvp
// RUN: jaxmlir-run %t.jvp --entry=f.jvp --args '2.0, 3.0, 0.0, 1.0' | FileCheck %s --check-prefix=JVP-EXEC
// RUN: jaxmlir-opt --jaxpr-linearize %s -o %t.lin
// RUN: FileCheck %s --check-prefix=LIN < %t.lin
// RUN: jaxmlir-run %t.lin --entry=f.lin --args '2.0, 3.0, 1.0, 0.0' | FileCheck %s --check-prefix=LIN-EXEC
// RUN: not jaxmlir-opt --jaxpr-vjp %s 2>&1 | FileCheck %s --check-prefix=VJP
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=3 in-axes=-1,0' %s -o %t.vmap
// RUN: FileCheck %s --check-prefix=VMAP < %t.vmap
// RUN: jaxmlir-run %t.vmap --entry=f.vmap --args '2.0, [3.0, 1.0, 20.0]' | FileCheck %s --check-prefix=VMAP-EXEC

// Tangents are carried; the condition does not use them.
// JVP:      func.func private @f.jvp(%[[A:.*]]: tensor<f32>, %[[X:.*]]: tensor<f32>, %[[DA:.*]]: tensor<f32>, %[[DX:.*]]: tensor<f32>)
// JVP-NEXT:   %[[OUT:.*]]:2 = "jaxpr.while"(%[[A]], %[[DA]], %[[X]], %[[DX]]) {body_jaxpr = @body.jvp, body_nconsts = 2 : i64, cond_jaxpr = @below.jvp}
// JVP-NEXT:   return %[[OUT]]#0, %[[OUT]]#1
// JVP:      func.func private @below.jvp(%[[X:.*]]: tensor<f32>, %{{.*}}: tensor<f32>) -> tensor<i1>
// JVP:        "jaxpr.lt"(%[[X]], %{{.*}})

// 3 -> 6 -> 12
// JVP-EXEC:      result[0]: f32[] = 12.0
// JVP-EXEC-NEXT: result[1]: f32[] = 4.0

// The linear function runs the loop again to compute the residuals of each iteration.
// LIN:      func.func private @f.fwd(%[[A:.*]]: tensor<f32>, %[[X:.*]]: tensor<f32>)
// LIN-NEXT:   %[[OUT:.*]] = "jaxpr.while"(%[[A]], %[[X]]) {body_jaxpr = @body, {{.*}}cond_jaxpr = @below}
// LIN-NEXT:   return %[[OUT]], %[[A]], %[[X]]
// LIN:      func.func private @f.lin(%[[A:.*]]: tensor<f32>, %[[X:.*]]: tensor<f32>, %[[DA:.*]]: tensor<f32>, %[[DX:.*]]: tensor<f32>)
// LIN-NEXT:   %[[OUT:.*]]:2 = "jaxpr.while"(%[[A]], %[[DA]], %[[X]], %[[DX]])
// LIN-NEXT:   return %[[OUT]]#1

// 2 a x
// LIN-EXEC: result: f32[] = 12.0

// VJP: while.mlir:[[#]]:{{.*}}: error: 'jaxpr.while' op cannot be transposed: ValueError: Reverse-mode differentiation does not work for lax.while_loop

// The loop runs until all elements are done; elements that are done keep their value. a is not batched.
// VMAP:      func.func private @f.vmap(%[[A:.*]]: tensor<f32>, %[[X:.*]]: tensor<3xf32>) -> tensor<3xf32>
// VMAP-NEXT:   "jaxpr.while"(%[[A]], %[[X]]) {body_jaxpr = @body.vmap, body_nconsts = 1 : i64, cond_jaxpr = @below.vmap}
// VMAP:      func.func private @below.vmap(%{{.*}}: tensor<3xf32>) -> tensor<3xi1>

// VMAP-EXEC: result: f32[3] = [12.0, 16.0, 20.0]
func.func public @f(%a: tensor<f32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.while"(%a, %x) {body_jaxpr = @body, body_nconsts = 1 : i64, cond_jaxpr = @below} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @below(%x: tensor<f32>) -> tensor<i1> {
  %ten = "jaxpr.constant"() {value = dense<1.000000e+01> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.lt"(%x, %ten) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @body(%a: tensor<f32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%a, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
