// Transposition: a linear function run backwards. Ops that do not depend on linear arguments come
// first; then each linear op passes the cotangent of its result to its operands.
//
//   f(c; u, v) = sin(c) u + v          transposed: ct -> (sin(c) ct, ct)
//   twice(u) = u + u                   transposed: the two cotangents of u are summed

// RUN: jaxmlir-opt --jaxpr-transpose='linear=1,2' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.transpose --args '0.5, 3.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-transpose='func=twice linear=0' %s | FileCheck %s --check-prefix=TWICE

// CHECK:      func.func private @f.transpose(%[[C:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[C]])
// CHECK-NEXT:   %[[CTU:.*]] = "jaxpr.mul"(%[[SIN]], %[[CT]])
// CHECK-NEXT:   return %[[CTU]], %[[CT]]

// EXEC:      result[0]: f32[] = 1.43827{{[0-9]*}}
// EXEC-NEXT: result[1]: f32[] = 3.0

// TWICE:      func.func private @twice.transpose(%[[CT:.*]]: tensor<f32>) -> tensor<f32>
// TWICE-NEXT:   %[[SUM:.*]] = "jaxpr.add_any"(%[[CT]], %[[CT]])
// TWICE-NEXT:   return %[[SUM]]
func.func public @f(%c: tensor<f32>, %u: tensor<f32>, %v: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%c) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %u) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add_any"(%1, %v) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
func.func private @twice(%u: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add_any"(%u, %u) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
