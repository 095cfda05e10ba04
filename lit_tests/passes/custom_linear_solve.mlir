// The derivative of a linear solve follows from the equation, not from the algorithm: with A = diag(a),
// A x = b implies A dx = db - dA x.
//
//   f(a, b) = b / a    as a solve

// RUN: jaxmlir-opt --jaxpr-linearize %s -o %t.lin
// RUN: FileCheck %s --check-prefix=LIN < %t.lin
// RUN: jaxmlir-opt --jaxpr-vjp %s -o %t
// RUN: FileCheck %s --check-prefix=BWD < %t
// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=3 in-axes=-1,0' %s | FileCheck %s --check-prefix=VMAP
// RUN: jaxmlir-opt --jaxpr-jacobian-sparsity='argnums=0,1' %s 2>&1 >/dev/null | FileCheck %s --check-prefix=PATTERN
// RUN: jaxmlir-run %t.lin --entry=f.lin --args '[2.0, 4.0], [5.0, 2.5], [1.0, 0.0], [0.0, 8.0]' | FileCheck %s --check-prefix=PUSH
// RUN: jaxmlir-run %t --entry=f.bwd --args '[2.0, 4.0], [5.0, 2.5], [1.0, 8.0]' | FileCheck %s --check-prefix=PULL

// LIN:      func.func private @f.fwd(%[[A:.*]]: tensor<2xf32>, %[[B:.*]]: tensor<2xf32>)
// LIN-NEXT:   %[[X:.*]] = "jaxpr.custom_linear_solve"(%[[A]], %[[A]], %[[A]], %[[A]], %[[B]])
// LIN:        return %[[X]], %[[A]], %[[X]]
// LIN:      func.func private @f.lin(%[[A:.*]]: tensor<2xf32>, %[[X:.*]]: tensor<2xf32>, %[[DA:.*]]: tensor<2xf32>, %[[DB:.*]]: tensor<2xf32>)
// LIN-NEXT:   %[[DAX:.*]] = "jaxpr.jit"(%[[X]], %[[DA]]) {jaxpr = @matvec.lin
// LIN-NEXT:   %[[MINUS:.*]] = "jaxpr.neg"(%[[DAX]])
// LIN-NEXT:   %[[RHS:.*]] = "jaxpr.add_any"(%[[DB]], %[[MINUS]])
// LIN-NEXT:   "jaxpr.custom_linear_solve"(%[[A]], %[[A]], %[[A]], %[[A]], %[[RHS]])

// The transpose solves with the transposed functions.
// BWD:      func.func private @f.bwd(%[[A:.*]]: tensor<2xf32>, %[[X:.*]]: tensor<2xf32>, %[[CT:.*]]: tensor<2xf32>)
// BWD-NEXT:   %[[DB:.*]] = "jaxpr.custom_linear_solve"(%[[A]], %[[A]], %[[A]], %[[A]], %[[CT]]) {{.*}}matvec = @vecmat, solve = @transpose_solve, transpose_solve = @solve, vecmat = @matvec
// BWD-NEXT:   %[[MINUS:.*]] = "jaxpr.neg"(%[[DB]])
// BWD-NEXT:   %[[DA:.*]] = "jaxpr.jit"(%[[X]], %[[MINUS]]) {jaxpr = @matvec.bwd
// BWD-NEXT:   return %[[DA]], %[[DB]]

// The matrix is not batched, but its right-hand side is.
// VMAP: "jaxpr.custom_linear_solve"(%{{.*}}) {{.*}}solve = @solve.vmap{{.*}} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>

// The inverse of a diagonal matrix is diagonal, so the system does not mix its unknowns.
// PATTERN:      <SparsityPattern 2 x 4, 4 elements
// PATTERN-NEXT: {{.*}}
// PATTERN-NEXT: 1 VJP

// (0 - 1 5) / 2 and 8 / 4; then -(1 / 2) 5, -(8 / 4) 2.5 and 1 / 2, 8 / 4
// PUSH: result: f32[2] = [-2.5, 2.0]
// PULL:      result[0]: f32[2] = [-2.5, -5.0]
// PULL-NEXT: result[1]: f32[2] = [0.5, 2.0]
func.func public @f(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.custom_linear_solve"(%a, %a, %a, %a, %b) {const_lengths = {_LinearSolveTuple = {matvec = 1 : i64, solve = 1 : i64, transpose_solve = 1 : i64, vecmat = 1 : i64}}, jaxprs = {_LinearSolveTuple = {matvec = @matvec, solve = @solve, transpose_solve = @transpose_solve, vecmat = @vecmat}}} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @matvec(%a: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%a, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @vecmat(%a: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%x, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @solve(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.div"(%b, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @transpose_solve(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.div"(%b, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
