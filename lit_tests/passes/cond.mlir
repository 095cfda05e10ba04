// A cond is differentiated and batched branch by branch.
//
//   f(i, x, y) = sin(x) y if i else 3 x

// RUN: jaxmlir-opt --jaxpr-jvp %s | FileCheck %s --check-prefix=JVP
// RUN: jaxmlir-opt --jaxpr-vjp %s -o %t
// RUN: FileCheck %s --check-prefix=VJP < %t
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=-1,0,-1' %s | FileCheck %s --check-prefix=BRANCH
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=0,0,-1' %s -o %t.select
// RUN: FileCheck %s --check-prefix=SELECT < %t.select
// RUN: jaxmlir-run %t --entry=f.bwd --args '1, 2.0, 0.87758255, 0.47942555, 10.0' | FileCheck %s --check-prefix=THEN
// RUN: jaxmlir-run %t --entry=f.bwd --args '0, 2.0, 0.0, 0.0, 10.0' | FileCheck %s --check-prefix=ELSE
// RUN: jaxmlir-run %t.select --entry=f.vmap --args '[0, 1], [0.5, 0.5], 2.0' | FileCheck %s --check-prefix=EXEC

// The result's tangent depends on the tangent of y in one branch only: the other branch ignores it.
// JVP:      func.func private @f.jvp(%[[I:.*]]: tensor<i32>, %[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>, %[[DX:.*]]: tensor<f32>, %[[DY:.*]]: tensor<f32>)
// JVP-NEXT:   %[[OUT:.*]]:2 = "jaxpr.cond"(%[[I]], %[[X]], %[[Y]], %[[DX]], %[[DY]]) {branches = [@else.jvp, @then.jvp]}
// JVP-NEXT:   return %[[OUT]]#0, %[[OUT]]#1

// The residuals cos(x) and sin(x) of one branch are zeros in the other branch. y is an operand of the
// cond, so the branches need not return it.
// VJP:      func.func private @f.fwd(%[[I:.*]]: tensor<i32>, %[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>)
// VJP-NEXT:   %[[OUT:.*]]:3 = "jaxpr.cond"(%[[I]], %[[X]], %[[Y]]) {branches = [@else.fwd, @then.fwd]}
// VJP-NEXT:   return %[[OUT]]#0, %[[I]], %[[Y]], %[[OUT]]#1, %[[OUT]]#2
// VJP:      func.func private @else.fwd
// VJP-DAG:    %[[ZERO:.*]] = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// VJP:        return %{{.*}}, %{{.*}}, %{{.*}} : tensor<f32>, tensor<f32>, tensor<f32>
// VJP:      func.func private @f.bwd(%[[I:.*]]: tensor<i32>, %[[Y:.*]]: tensor<f32>, %[[COS:.*]]: tensor<f32>, %[[SIN:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// VJP-NEXT:   %[[CTS:.*]]:2 = "jaxpr.cond"(%[[I]], %[[Y]], %[[COS]], %[[SIN]], %[[CT]]) {branches = [@else.bwd, @then.bwd]}
// VJP-NEXT:   return %[[CTS]]#0, %[[CTS]]#1

// With one index for the whole batch, the op stays a cond ...
// BRANCH:      func.func private @f.vmap(%[[I:.*]]: tensor<i32>, %[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<f32>)
// BRANCH-NEXT:   %[[OUT:.*]] = "jaxpr.cond"(%[[I]], %[[X]], %[[Y]]) {branches = [@else.vmap, @then.vmap]} : (tensor<i32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>

// ... and with one index for each element, both branches are computed.
// SELECT:     func.func private @f.vmap
// SELECT-NOT:   jaxpr.cond
// SELECT:       %[[E:.*]] = "jaxpr.jit"({{.*}}) {jaxpr = @else.vmap
// SELECT:       %[[T:.*]] = "jaxpr.jit"({{.*}}) {jaxpr = @then.vmap
// SELECT:       "jaxpr.select_n"(%{{.*}}, %[[E]], %[[T]])

// 10 cos(0.5) 2 and 10 sin(0.5); or 30 and 0
// THEN:      result[0]: f32[] = 17.5516{{[0-9]*}}
// THEN-NEXT: result[1]: f32[] = 4.79425{{[0-9]*}}
// ELSE:      result[0]: f32[] = 30.0
// ELSE-NEXT: result[1]: f32[] = 0.0
// EXEC: result: f32[2] = [1.5, 0.95885{{[0-9]*}}]
func.func public @f(%i: tensor<i32>, %x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.cond"(%i, %x, %y) {branches = [@else, @then]} : (tensor<i32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @then(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @else(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %three = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.mul"(%three, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
