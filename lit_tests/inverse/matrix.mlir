// A product with a known square matrix is inverted by solving a linear system.

// RUN: jaxmlir-opt --jaxpr-inverse='argnums=1 log-det=true' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[5.0, 11.0], [[1.0, 2.0], [3.0, 4.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: func.func private @f.inverse(%[[Y:.*]]: tensor<2xf32>, %[[A:.*]]: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<f32>) {
// CHECK:   "jaxpr.jit"({{.*}}) {jaxpr = @solve, name = "solve"}
// CHECK:   "jaxpr.jit"({{.*}}) {jaxpr = @slogdet, name = "slogdet"}

// [[1, 2], [3, 4]] [1, 2] = [5, 11], and the determinant is -2.
// EXEC:      result[0]: f32[2] = [{{1.0|0.9999|1.0000}}{{[0-9]*}}, {{2.0|1.9999}}{{[0-9]*}}]
// EXEC-NEXT: result[1]: f32[] = -0.6931{{[0-9]*}}
func.func public @f(%a: tensor<2x2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.dot_general"(%a, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]]} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
