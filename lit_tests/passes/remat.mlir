// jax.checkpoint: the forward pass stores only the operands, and the backward pass recomputes the
// values that it needs, behind a barrier that keeps the compiler from reusing the first values.
//
//   f(x) = sin(sin(x))

// RUN: jaxmlir-opt --jaxpr-vjp %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-vmap=axis-size=2 %s | FileCheck %s --check-prefix=VMAP
// RUN: jaxmlir-run %t --entry=f.bwd --args '0.5, 10.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.fwd(%[[X:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK-NEXT:   %[[Y:.*]] = "jaxpr.jit"(%[[X]]) {jaxpr = @twice
// CHECK-NEXT:   return %[[Y]], %[[X]]
// CHECK:      func.func private @f.bwd(%[[X:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// CHECK-NEXT:   "jaxpr.remat2"(%[[X]], %[[CT]]) {differentiated = true, jaxpr = @[[BWD:.*]]}
// CHECK:      func.func private @[[BWD]](%[[X:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[X]])
// CHECK-NEXT:   %[[COS:.*]] = "jaxpr.cos"(%[[X]])
// CHECK-NEXT:   %[[COS2:.*]] = "jaxpr.cos"(%[[SIN]])
// CHECK-NEXT:   %[[CT2:.*]] = "jaxpr.mul"(%[[CT]], %[[COS2]])
// CHECK-NEXT:   %[[CT1:.*]] = "jaxpr.mul"(%[[CT2]], %[[COS]])
// CHECK-NEXT:   return %[[CT1]]

// VMAP: "jaxpr.remat2"(%{{.*}}) {jaxpr = @twice.vmap} : (tensor<2xf32>) -> tensor<2xf32>

// 10 cos(sin(0.5)) cos(0.5)
// EXEC: result: f32[] = 7.786{{[0-9]*}}
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.remat2"(%x) {jaxpr = @twice} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.sin"(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
