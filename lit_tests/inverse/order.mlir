// Arguments become known in another order than the order of the ops: a follows from the second
// result, then b follows from the first result.
//
//   f(a, b) = (exp(a) + b, a - 1)        f^-1(y, z) = (z + 1, y - exp(z + 1))

// RUN: jaxmlir-opt --jaxpr-inverse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '3.0, -1.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<f32>, %[[Z:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
// CHECK-NEXT:   %[[ONE:.*]] = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.add"(%[[Z]], %[[ONE]])
// CHECK-NEXT:   %[[EXP:.*]] = "jaxpr.exp"(%[[A]])
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.sub"(%[[Y]], %[[EXP]])
// CHECK-NEXT:   return %[[A]], %[[B]]

// EXEC:      result[0]: f32[] = 0.0
// EXEC-NEXT: result[1]: f32[] = 2.0
func.func public @f(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.exp"(%a) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%0, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "jaxpr.sub"(%a, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1, %3 : tensor<f32>, tensor<f32>
}
