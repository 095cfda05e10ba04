// Inversion: results are given and arguments are computed, by the inverse of each op in reverse order.
//
//   f(x) = exp(tanh(x))        f^-1(y) = atanh(log(y))

// RUN: jaxmlir-opt --jaxpr-inverse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '2.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<f32>) -> tensor<f32> {
// CHECK-NEXT:   %[[LOG:.*]] = "jaxpr.log"(%[[Y]])
// CHECK-NEXT:   %[[X:.*]] = "jaxpr.atanh"(%[[LOG]])
// CHECK-NEXT:   return %[[X]]

// EXEC: result: f32[] = 0.8539{{[0-9]*}}

// The inverse is a function like any other: this is its gradient, for a batch of five numbers.
// RUN: jaxmlir-opt --jaxpr-inverse --jaxpr-grad=func=f.inverse --jaxpr-vmap='func=f.inverse.grad axis-size=5' %s | jaxmlir-run --entry=f.inverse.grad.vmap --args '[0.2, 0.4, 0.6, 0.8, 1.0]' | FileCheck %s --check-prefix=GRAD
// GRAD: result: f32[5] = [-3.1440{{[0-9]*}}, 15.584{{[0-9]*}}, 2.2551{{[0-9]*}}, 1.3155{{[0-9]*}}, 1.0{{[0-9]*}}]

// With log-det, the last result is log|dx/dy|: minus the sum of log|exp'|, which is log(y), and
// log|tanh'|, which is log(1 - t) + log(1 + t).
// RUN: jaxmlir-opt --jaxpr-inverse=log-det=true %s -o %t.det
// RUN: FileCheck %s --check-prefix=DET < %t.det
// RUN: jaxmlir-run %t.det --entry=f.inverse --args '2.0' | FileCheck %s --check-prefix=DETEXEC
// DET:      func.func private @f.inverse(%[[Y:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
// DET-NEXT:   %[[T:.*]] = "jaxpr.log"(%[[Y]])
// DET-NEXT:   %[[X:.*]] = "jaxpr.atanh"(%[[T]])
// DET-NEXT:   %[[N:.*]] = "jaxpr.neg"(%[[T]])
// DET-NEXT:   %[[A:.*]] = "jaxpr.log1p"(%[[N]])
// DET-NEXT:   %[[B:.*]] = "jaxpr.log1p"(%[[T]])
// DET-NEXT:   %[[C:.*]] = "jaxpr.add"(%[[A]], %[[B]])
// DET-NEXT:   %[[SUM:.*]] = "jaxpr.add"(%[[T]], %[[C]])
// DET-NEXT:   %[[D:.*]] = "jaxpr.neg"(%[[SUM]])
// DET-NEXT:   return %[[X]], %[[D]]
// DETEXEC: result[1]: f32[] = -0.0383{{[0-9]*}}
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.tanh"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.exp"(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
