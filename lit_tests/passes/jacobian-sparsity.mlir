// The elements of a Jacobian that may be nonzero: a picture on stderr, eight places a character. The
// module itself is not changed.
//
//   f(x) = (x[1:] - x[:-1])^2      f reads two neighbours: a band, found by two products

// RUN: jaxmlir-opt --jaxpr-jacobian-sparsity %s 2>&1 >/dev/null | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-jacobian-sparsity %s 2>/dev/null | FileCheck %s --check-prefix=MODULE
// RUN: jaxmlir-opt --jaxpr-jacobian-sparsity='func=mixed' --remarks %s 2>&1 >/dev/null | FileCheck %s --check-prefix=DENSE
// RUN: jaxmlir-opt --jaxpr-jacobian-sparsity='func=symbolic' %s 2>&1 >/dev/null | FileCheck %s --check-prefix=SYMBOLIC
// RUN: jaxmlir-opt --jaxpr-jvp %s -o %t
// RUN: jaxmlir-run %t --entry=f.jvp --args '[0.0, 1.0, 3.0, 6.0, 10.0], [1.0, 0.0, 1.0, 0.0, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK:      <SparsityPattern 4 x 5, 8 elements (0.4)>
// CHECK-NEXT: ⠙⢦⡀
// CHECK-NEXT: 2 JVPs

// MODULE: func.func public @f

// An op that mixes all elements is named, with its location: here an op that the derivative reads.
// DENSE:      <SparsityPattern 5 x 5, 25 elements (1)>
// DENSE:      5 JVPs
// DENSE-NEXT: jacobian-sparsity.mlir:[[# @LINE + 20]]:{{.*}}: remark: [jaxpr-jacobian-sparsity] 'jaxpr.gather' op of the derivative: an element of its result depends on 5 of 5 inputs

// If sizes are symbolic, the pattern holds for all sizes.
// SYMBOLIC:      <SymbolicPattern (n - 1) x n: 2 JVPs>
// SYMBOLIC-NEXT:   [i] of [i + 1], 0 <= i < n - 1
// SYMBOLIC-NEXT:   [i] of [i], 0 <= i < n - 1

// The product with the sum of the first, third and fifth unit vectors gives the elements of these
// columns, one in each row: 2 (x[i+1] - x[i]), negative for the left column.
// EXEC: [1.0, 4.0, 9.0, 16.0]
// EXEC: [-2.0, 4.0, -6.0, 8.0]

func.func public @f(%x: tensor<5xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.slice"(%x) {limit_indices = array<i64: 5>, start_indices = array<i64: 1>} : (tensor<5xf32>) -> tensor<4xf32>
  %1 = "jaxpr.slice"(%x) {limit_indices = array<i64: 4>, start_indices = array<i64: 0>} : (tensor<5xf32>) -> tensor<4xf32>
  %2 = "jaxpr.sub"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "jaxpr.mul"(%2, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func private @mixed(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "jaxpr.sort"(%x) {dimension = 0 : i64, is_stable = true, num_keys = 1 : i64} : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func private @symbolic(%x: tensor<?xf32, {shape = "n"}>) -> tensor<?xf32, {shape = "n - 1"}> {
  %0 = "jaxpr.slice"(%x) {limit_indices = [{dim = ["n"]}], start_indices = array<i64: 1>} : (tensor<?xf32, {shape = "n"}>) -> tensor<?xf32, {shape = "n - 1"}>
  %1 = "jaxpr.slice"(%x) {limit_indices = [{dim = ["n - 1"]}], start_indices = array<i64: 0>} : (tensor<?xf32, {shape = "n"}>) -> tensor<?xf32, {shape = "n - 1"}>
  %2 = "jaxpr.sub"(%0, %1) : (tensor<?xf32, {shape = "n - 1"}>, tensor<?xf32, {shape = "n - 1"}>) -> tensor<?xf32, {shape = "n - 1"}>
  return %2 : tensor<?xf32, {shape = "n - 1"}>
}
