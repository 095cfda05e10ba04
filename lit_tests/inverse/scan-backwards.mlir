// A loop whose final carry is known is run backwards, with the inverse of its body. The counter does
// not depend on unknowns: a forward loop computes it first, and passes its history to the steps.
//
//   three times  i, x <- i + 1, 2 x + i

// RUN: jaxmlir-opt --jaxpr-inverse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '12.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<f32>) -> tensor<f32> {
// CHECK-NEXT:   %[[ZERO:.*]] = "jaxpr.constant"
// CHECK-NEXT:   %[[I:.*]]:2 = "jaxpr.scan"(%[[ZERO]]) {jaxpr = @body.inverse.history, length = 3 : i64, num_carry = 1 : i64}
// CHECK-NEXT:   %[[X:.*]] = "jaxpr.scan"(%[[Y]], %[[I]]#1) {jaxpr = @[[STEP:.*]], length = 3 : i64, num_carry = 1 : i64, reverse = true}
// CHECK-NEXT:   return %[[X]]

// CHECK:      func.func private @[[STEP]](%[[AFTER:.*]]: tensor<f32>, %[[N:.*]]: tensor<f32>) -> tensor<f32> {
// CHECK-NEXT:   %[[TWO:.*]] = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>}
// CHECK-NEXT:   %[[TWICE:.*]] = "jaxpr.sub"(%[[AFTER]], %[[N]])
// CHECK-NEXT:   "jaxpr.div"(%[[TWICE]], %[[TWO]])

// ((((12 - 2) / 2) - 1) / 2 - 0) / 2
// EXEC: result: f32[] = 1.0
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %1:2 = "jaxpr.scan"(%0, %x) {jaxpr = @body, length = 3 : i64, num_carry = 2 : i64} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %1#1 : tensor<f32>
}
func.func private @body(%i: tensor<f32>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.add"(%i, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "jaxpr.mul"(%2, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %4 = "jaxpr.add"(%3, %i) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1, %4 : tensor<f32>, tensor<f32>
}
