// The gradient: the forward and the backward pass in one function, with a cotangent of 1.
//
//   f(x, y, n) = (sin(x) y, n + n)    df/dx = cos(x) y    df/dy = sin(x)

// RUN: jaxmlir-opt --jaxpr-grad='has-aux=true argnums=0,1 value=true' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.grad --args '0.5, 2.0, 3' | FileCheck %s --check-prefix=EXEC
// RUN: not jaxmlir-opt --jaxpr-grad %s 2>&1 | FileCheck %s --check-prefix=AUX

// CHECK:      func.func private @f.grad(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>, %[[N:.*]]: tensor<i32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<i32>) {
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[X]])
// CHECK-NEXT:   %[[COS:.*]] = "jaxpr.cos"(%[[X]])
// CHECK-NEXT:   %[[F:.*]] = "jaxpr.mul"(%[[SIN]], %[[Y]])
// CHECK-NEXT:   %[[M:.*]] = "jaxpr.add"(%[[N]], %[[N]])
// CHECK-NEXT:   %[[ONE:.*]] = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK-NEXT:   %[[CTY:.*]] = "jaxpr.mul"(%[[SIN]], %[[ONE]])
// CHECK-NEXT:   %[[CTSIN:.*]] = "jaxpr.mul"(%[[ONE]], %[[Y]])
// CHECK-NEXT:   %[[CTX:.*]] = "jaxpr.mul"(%[[CTSIN]], %[[COS]])
// CHECK-NEXT:   return %[[F]], %[[CTX]], %[[CTY]], %[[M]]

// EXEC:      result[0]: f32[] = 0.95885{{[0-9]*}}
// EXEC-NEXT: result[1]: f32[] = 1.75516{{[0-9]*}}
// EXEC-NEXT: result[2]: f32[] = 0.47942{{[0-9]*}}
// EXEC-NEXT: result[3]: i32[] = 6

// AUX: the gradient of @f: expected one scalar result, got 2 results (has-aux allows others after the scalar)
func.func public @f(%x: tensor<f32>, %y: tensor<f32>, %n: tensor<i32>) -> (tensor<f32>, tensor<i32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add"(%n, %n) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %1, %2 : tensor<f32>, tensor<i32>
}
