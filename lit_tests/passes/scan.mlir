// The transformations of a scan are scans.
//
//   f(w, c, x) = (c_3, c)    with c_0 = c, c_{i+1} = sin(w) c_i x_i, and a counter besides
//
// The counter has no tangent and does not depend on the batch, and the derivative does not need it.

// RUN: jaxmlir-opt --jaxpr-jvp='argnums=1,2' %s -o %t.jvp
// RUN: FileCheck %s --check-prefix=JVP < %t.jvp
// RUN: jaxmlir-run %t.jvp --entry=f.jvp --args '0.5, 2.0, [1.0, 2.0, 3.0], 1.0, [0.0, 0.0, 3.0]' | FileCheck %s --check-prefix=JVP-EXEC
// RUN: jaxmlir-opt --jaxpr-linearize --jaxpr-transpose='func=f.lin' %s -o %t.lin
// RUN: FileCheck %s --check-prefix=LIN < %t.lin
// RUN: jaxmlir-opt --jaxpr-grad='func=last argnums=0,1,2' %s -o %t.grad
// RUN: jaxmlir-run %t.grad --entry=last.grad --args '0.5, 2.0, [1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=GRAD-EXEC
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=-1,0,-1 out-axes=0,0' %s -o %t.vmap
// RUN: FileCheck %s --check-prefix=VMAP < %t.vmap
// RUN: jaxmlir-run %t.vmap --entry=f.vmap --args '0.5, [2.0, 4.0], [1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=VMAP-EXEC
// RUN: jaxmlir-opt --jaxpr-partial-eval='unknown=1' %s | FileCheck %s --check-prefix=KNOWN

// Tangents are carried beside their primals.
// JVP:      func.func private @f.jvp(%[[W:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>, %[[X:.*]]: tensor<3xf32>, %[[DC:.*]]: tensor<f32>, %[[DX:.*]]: tensor<3xf32>)
// JVP-NEXT:   %[[N:.*]] = "jaxpr.constant"
// JVP-NEXT:   %[[OUT:.*]]:5 = "jaxpr.scan"(%[[W]], %[[C]], %[[N]], %[[DC]], %[[X]], %[[DX]]) {jaxpr = @body.jvp, length = 3 : i64, num_carry = 3 : i64, num_consts = 1 : i64}
// JVP-NEXT:   return %[[OUT]]#0, %[[OUT]]#3, %[[OUT]]#2, %[[OUT]]#4

// 12 sin(0.5)^3, and its change by 1/2 for c and by 3/3 for the last x
// JVP-EXEC:      result[0]: f32[] = 1.32234{{[0-9]*}}
// JVP-EXEC-NEXT: result[1]: f32[3] = [2.0, 0.95885{{[0-9]*}}, 0.91939{{[0-9]*}}]
// JVP-EXEC-NEXT: result[2]: f32[] = 1.98351{{[0-9]*}}

// sin and cos of w are loop-invariant, so they are computed before the loop. Of the residuals of each
// iteration, x and c are available already; only the product is stacked.
// LIN:      func.func private @f.fwd(%[[W:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>, %[[X:.*]]: tensor<3xf32>)
// LIN-NEXT:   %[[N:.*]] = "jaxpr.constant"
// LIN-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[W]])
// LIN-NEXT:   %[[COS:.*]] = "jaxpr.cos"(%[[W]])
// LIN-NEXT:   %[[OUT:.*]]:4 = "jaxpr.scan"(%[[SIN]], %[[C]], %[[N]], %[[X]]) {jaxpr = @body.fwd, length = 3 : i64, num_carry = 2 : i64, num_consts = 1 : i64}
// LIN-NEXT:   return %[[OUT]]#0, %[[OUT]]#2, %[[COS]], %[[SIN]], %[[OUT]]#2, %[[X]], %[[OUT]]#3
// LIN:      func.func private @body.fwd(%[[SIN:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>, %[[N:.*]]: tensor<i32>, %[[X:.*]]: tensor<f32>)
// LIN:        %[[P:.*]] = "jaxpr.mul"(%[[SIN]], %[[C]])
// LIN-NEXT:   %[[NEXT:.*]] = "jaxpr.mul"(%[[P]], %[[X]])
// LIN-NEXT:   return %[[NEXT]], %{{.*}}, %[[C]], %[[P]]

// The linear loop carries only the tangent of c.
// LIN:      func.func private @f.lin(
// LIN-NEXT:   "jaxpr.scan"({{.*}}) {jaxpr = @body.lin, length = 3 : i64, num_carry = 1 : i64, num_consts = 3 : i64}

// The transpose runs backwards; it carries the sum of w's cotangents, and the cotangent of c.
// LIN:      func.func private @f.lin.transpose(
// LIN-NEXT:   %[[ZERO:.*]] = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// LIN-NEXT:   "jaxpr.scan"(%{{.*}}, %{{.*}}, %[[ZERO]], {{.*}}) {jaxpr = @body.bwd, length = 3 : i64, num_carry = 2 : i64, num_consts = 2 : i64, reverse = true}
// LIN:      func.func private @body.bwd(%[[COS:.*]]: tensor<f32>, %[[SIN:.*]]: tensor<f32>, %[[SUM:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>, %[[CT_Y:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>, %[[X:.*]]: tensor<f32>, %[[P:.*]]: tensor<f32>)
// LIN-NEXT:   %[[CT_X:.*]] = "jaxpr.mul"(%[[P]], %[[CT]])
// LIN-NEXT:   %[[CT_P:.*]] = "jaxpr.mul"(%[[CT]], %[[X]])
// LIN-NEXT:   %[[A:.*]] = "jaxpr.mul"(%[[SIN]], %[[CT_P]])
// LIN-NEXT:   %[[CT_C:.*]] = "jaxpr.add_any"(%[[CT_Y]], %[[A]])
// LIN-NEXT:   %[[B:.*]] = "jaxpr.mul"(%[[CT_P]], %[[C]])
// LIN-NEXT:   %[[CT_W:.*]] = "jaxpr.mul"(%[[B]], %[[COS]])
// LIN-NEXT:   %[[TOTAL:.*]] = "jaxpr.add_any"(%[[SUM]], %[[CT_W]])
// LIN-NEXT:   return %[[TOTAL]], %[[CT_C]], %[[CT_X]]

// Of 6 sin(w)^3 c: 3 cot(w), 1/c and 1/x_i of the value.
// GRAD-EXEC:      result[0]: f32[] = 7.26160{{[0-9]*}}
// GRAD-EXEC-NEXT: result[1]: f32[] = 0.66117{{[0-9]*}}
// GRAD-EXEC-NEXT: result[2]: f32[3] = [1.32234{{[0-9]*}}, 0.66117{{[0-9]*}}, 0.44078{{[0-9]*}}]

// The carry is batched; the other operands are not.
// VMAP:      func.func private @f.vmap(%[[W:.*]]: tensor<f32>, %[[C:.*]]: tensor<2xf32>, %[[X:.*]]: tensor<3xf32>) -> (tensor<2xf32>, tensor<2x3xf32>)
// VMAP:        %[[OUT:.*]]:3 = "jaxpr.scan"(%[[W]], %[[C]], %{{.*}}, %[[X]]) {{.*}} -> (tensor<2xf32>, tensor<i32>, tensor<3x2xf32>)
// VMAP-NEXT:   %[[YS:.*]] = "jaxpr.transpose"(%[[OUT]]#2) {permutation = array<i64: 1, 0>}
// VMAP-NEXT:   return %[[OUT]]#0, %[[YS]]

// VMAP-EXEC:      result[0]: f32[2] = [1.32234{{[0-9]*}}, 2.64469{{[0-9]*}}]

// If c is unknown, the counter runs in a loop of its own, and sin(w) is computed before both loops.
// The other loop carries only c, and scans over the known x.
// KNOWN:      func.func private @f.known(%[[W:.*]]: tensor<f32>, %[[X:.*]]: tensor<3xf32>)
// KNOWN-NEXT:   %[[N:.*]] = "jaxpr.constant"
// KNOWN-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[W]])
// KNOWN-NEXT:   "jaxpr.scan"(%[[N]], %[[X]]) {jaxpr = @body.known, length = 3 : i64, num_carry = 1 : i64}
// KNOWN-NEXT:   return %[[SIN]], %[[X]]
// KNOWN:      func.func private @f.unknown(%[[SIN:.*]]: tensor<f32>, %[[X:.*]]: tensor<3xf32>, %[[C:.*]]: tensor<f32>)
// KNOWN-NEXT:   "jaxpr.scan"(%[[SIN]], %[[C]], %[[X]]) {jaxpr = @body.unknown, length = 3 : i64, num_carry = 1 : i64, num_consts = 1 : i64}
func.func public @f(%w: tensor<f32>, %c: tensor<f32>, %xs: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) {
  %n = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0:3 = "jaxpr.scan"(%w, %c, %n, %xs) {jaxpr = @body, length = 3 : i64, num_carry = 2 : i64, num_consts = 1 : i64} : (tensor<f32>, tensor<f32>, tensor<i32>, tensor<3xf32>) -> (tensor<f32>, tensor<i32>, tensor<3xf32>)
  return %0#0, %0#2 : tensor<f32>, tensor<3xf32>
}
func.func private @body(%w: tensor<f32>, %c: tensor<f32>, %n: tensor<i32>, %x: tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<f32>) {
  %one = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %0 = "jaxpr.add"(%n, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %1 = "jaxpr.sin"(%w) : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.mul"(%1, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = "jaxpr.mul"(%2, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %3, %0, %c : tensor<f32>, tensor<i32>, tensor<f32>
}
func.func private @last(%w: tensor<f32>, %c: tensor<f32>, %xs: tensor<3xf32>) -> tensor<f32> {
  %0:2 = "jaxpr.jit"(%w, %c, %xs) {jaxpr = @f, name = "f"} : (tensor<f32>, tensor<f32>, tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>)
  return %0#0 : tensor<f32>
}
