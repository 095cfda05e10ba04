// The elements of a Hessian that may be nonzero: the sparsity pattern of the gradient's Jacobian.
//
//   f(x) = sum(x[1:] x[:-1])      each x[i] is multiplied by its neighbours, and never by itself

// RUN: jaxmlir-opt --jaxpr-hessian-sparsity %s 2>&1 >/dev/null | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-hessian-sparsity %s 2>/dev/null | FileCheck %s --check-prefix=MODULE
// RUN: jaxmlir-opt --jaxpr-grad %s -o %t
// RUN: jaxmlir-run %t --entry=f.grad --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK:      <SparsityPattern 4 x 4, 6 elements (0.38)>
// CHECK-NEXT: ⠪⡢
// CHECK-NEXT: 2 JVPs

// MODULE:     func.func public @f
// MODULE-NOT: grad

// EXEC: [2.0, 4.0, 6.0, 3.0]

func.func public @f(%x: tensor<4xf32>) -> tensor<f32> {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4>, start_indices = array<i64: 1>} : (tensor<4xf32>) -> tensor<3xf32>
  %1 = "jaxpr.slice"(%x) {limit_indices = array<i64: 3>, start_indices = array<i64: 0>} : (tensor<4xf32>) -> tensor<3xf32>
  %2 = "jaxpr.mul"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}
