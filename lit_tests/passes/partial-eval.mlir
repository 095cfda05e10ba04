// Partial evaluation: ops that depend only on known arguments run first, and the other ops wait for
// the unknown arguments. A constant that waits is written again; a called function is split as well.
//
//   f(x, t) = (sin(x) + 2, 2 cos(x) t)    known: x

// RUN: jaxmlir-opt --jaxpr-partial-eval=unknown=1 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.known --args '0.5' | FileCheck %s --check-prefix=KNOWN
// RUN: jaxmlir-run %t --entry=f.unknown --args '0.87758255, 10.0' | FileCheck %s --check-prefix=UNKNOWN

// CHECK:      func.func private @f.known(%[[X:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK-NEXT:   %[[TWO:.*]] = "jaxpr.constant"()
// CHECK-NEXT:   %[[BOTH:.*]]:2 = "jaxpr.jit"(%[[X]]) {jaxpr = @rule.known, name = "rule"}
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.add"(%[[BOTH]]#0, %[[TWO]])
// CHECK-NEXT:   return %[[SUM]], %[[BOTH]]#1

// CHECK:      func.func private @rule.known(%[[X:.*]]: tensor<f32>)
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[X]])
// CHECK-NEXT:   %[[COS:.*]] = "jaxpr.cos"(%[[X]])
// CHECK-NEXT:   return %[[SIN]], %[[COS]]

// CHECK:      func.func private @rule.unknown(%[[COS:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// CHECK-NEXT:   "jaxpr.mul"(%[[COS]], %[[T]])

// CHECK:      func.func private @f.unknown(%[[COS:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// CHECK-SAME: jaxpr.unknown = array<i1: false, true>
// CHECK-NEXT:   %[[TWO:.*]] = "jaxpr.constant"()
// CHECK-NEXT:   %[[PRODUCT:.*]] = "jaxpr.jit"(%[[COS]], %[[T]]) {jaxpr = @rule.unknown, name = "rule"}
// CHECK-NEXT:   %[[TWICE:.*]] = "jaxpr.mul"(%[[TWO]], %[[PRODUCT]])
// CHECK-NEXT:   return %[[TWICE]]

// KNOWN:      result[0]: f32[] = 2.47942{{[0-9]*}}
// KNOWN-NEXT: result[1]: f32[] = 0.87758{{[0-9]*}}
// UNKNOWN:    result: f32[] = 17.5516{{[0-9]*}}
func.func public @f(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %two = "jaxpr.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0:2 = "jaxpr.jit"(%x, %t) {jaxpr = @rule, name = "rule"} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %1 = "jaxpr.add"(%0#0, %two) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.mul"(%two, %0#1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1, %2 : tensor<f32>, tensor<f32>
}
func.func private @rule(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.cos"(%x) : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.mul"(%1, %t) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %2 : tensor<f32>, tensor<f32>
}
