// Reverse mode through a loop with a trip count that is known only at run time is an error, unless an
// option says how many states of the loop may be stored.
//
//   f(x, n) = x^(2^n), by n squarings        f' = 2^n x^(2^n - 1)        f'' = (2^n - 1) f' / x

// RUN: not jaxmlir-opt --jaxpr-grad %s 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: jaxmlir-opt --jaxpr-checkpoint-while='checkpoints=2' %s | FileCheck %s --check-prefix=MARK
// RUN: jaxmlir-opt --jaxpr-vjp='while=checkpointed checkpoints=2' %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-grad='while=checkpointed checkpoints=2' %s | jaxmlir-run - --entry=f.grad --args '2.0, 3' | FileCheck %s --check-prefix=GRAD
// RUN: jaxmlir-opt --jaxpr-grad='while=checkpointed checkpoints=2' --jaxpr-grad='func=f.grad' %s | jaxmlir-run - --entry=f.grad.grad --args '2.0, 3' | FileCheck %s --check-prefix=SECOND
// RUN: jaxmlir-opt --jaxpr-linearize='while=checkpointed checkpoints=2' %s | jaxmlir-run - --entry=f.fwd --args '2.0, 6' | FileCheck %s --check-prefix=FWD
// RUN: jaxmlir-opt --jaxpr-grad='while=checkpointed checkpoints=2' --jaxpr-vmap='func=f.grad axis-size=3' %s | jaxmlir-run - --entry=f.grad.vmap --args '[2.0, 2.0, 3.0], [0, 3, 1]' | FileCheck %s --check-prefix=BATCH

// ERROR: error: 'jaxpr.while' op cannot be transposed{{.*}}while=checkpointed checkpoints=N

// The loop itself does not change; its derivatives read how many states may be stored.
// MARK:      func.func public @f(
// MARK-NEXT:   %[[ZERO:.*]] = "jaxpr.constant"()
// MARK-NEXT:   %[[Y:.*]]:2 = "jaxpr.checkpointed_while"(%{{.*}}, %{{.*}}, %[[ZERO]]) {body_jaxpr = @body, checkpoints = 2 : i64, cond_jaxpr = @cond, cond_nconsts = 1 : i64} : (tensor<i32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)

// The pullback of the loop's body is just a multiplication by 2x. The counter has no cotangent.
// CHECK:      func.func private @body.bwd(%[[S:.*]]: tensor<f32>, %{{.*}}: tensor<i32>, %[[CT:.*]]: tensor<f32>) -> tensor<f32>
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.mul"(%[[S]], %[[CT]])
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.mul"(%[[CT]], %[[S]])
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.add_any"(%[[A]], %[[B]])
// CHECK-NEXT:   return %[[SUM]]

// The forward loop records its states: two states, and one row for the current state.
// CHECK:      func.func private @f.fwd(%[[X:.*]]: tensor<f32>, %[[N:.*]]: tensor<i32>)
// CHECK:        "jaxpr.checkpointed_while"(%[[N]], %[[X]], %{{.*}}) {body_jaxpr = @body.fwd, {{.*}}record = true{{.*}} -> (tensor<f32>, tensor<i32>, tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>)

// The backward loop visits the states in a sweep, whose steps are the pullback.
// CHECK:      func.func private @f.bwd(
// CHECK:        %[[DX:.*]] = "jaxpr.reverse_sweep"({{.*}}) {advance_jaxpr = @body.fwd, cond_jaxpr = @cond, cond_nconsts = 1 : i64, step_jaxpr = @body.bwd}
// CHECK-NEXT:   return %[[DX]]

// GRAD: result: f32[] = 1024.0
// SECOND: result: f32[] = 3584.0

// Of the six states 2, 4, 16, 256, 65536 and 2^32, the first, the fourth and the last are stored. This
// choice is best: reversing six steps with two checkpoints is cheapest if three steps follow the second.
// FWD: result[3]: f32[3] = [2.0, 256.0, 4.2949673e+09]
// FWD: result[6]: i32[3] = [0, 3, 5]

// One loop serves the batch, and each element takes as many iterations as it needs.
// BATCH: result: f32[3] = [1.0, 1024.0, 6.0]
func.func public @f(%x: tensor<f32>, %n: tensor<i32>) -> tensor<f32> {
  %zero = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0:2 = "jaxpr.while"(%n, %x, %zero) {body_jaxpr = @body, cond_jaxpr = @cond, cond_nconsts = 1 : i64} : (tensor<i32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
  return %0#0 : tensor<f32>
}
func.func private @cond(%n: tensor<i32>, %x: tensor<f32>, %i: tensor<i32>) -> tensor<i1> {
  %0 = "jaxpr.lt"(%i, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @body(%x: tensor<f32>, %i: tensor<i32>) -> (tensor<f32>, tensor<i32>) {
  %one = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %0 = "jaxpr.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %0, %1 : tensor<f32>, tensor<i32>
}
