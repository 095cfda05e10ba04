// Rows of an argument are in memory anyway, whatever its dimensions are called: a loop that stores these rows, or values computed from them, is removed.

// RUN: jaxmlir-opt --jaxpr-remat=calls=inf %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s --args '[0.5,1.0,1.5,2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[0.5,1.0,1.5,2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func public @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:   %[[ROWS:.*]] = "jaxpr.reshape"(%[[X]])
// CHECK-NEXT:   "jaxpr.constant"
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.scan"(%{{.*}}, %[[ROWS]]) {jaxpr = @[[BACK:.*]], length = 2
// CHECK-SAME:     reverse = true
// CHECK-NEXT:   return %[[SUM]]
// CHECK:      func.func private @[[BACK]](%[[C:.*]]: tensor<2xf32>, %[[ROW:.*]]: tensor<1x2xf32>)
// CHECK-NEXT:   %[[R:.*]] = "jaxpr.squeeze"(%[[ROW]])
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[R]])
// CHECK-NEXT:   %[[P:.*]] = "jaxpr.mul"(%[[R]], %[[SIN]])
// CHECK-NEXT:   "jaxpr.add"(%[[C]], %[[P]])

// EXEC: result: f32[2] = [1.73595{{[0-9]*}}, 2.66006{{[0-9]*}}]
func.func public @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  %rows = "jaxpr.reshape"(%x) {new_sizes = array<i64: 2, 1, 2>} : (tensor<4xf32>) -> tensor<2x1x2xf32>
  %y:2 = "jaxpr.scan"(%rows) {jaxpr = @step, length = 2 : i64} : (tensor<2x1x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %sum = "jaxpr.scan"(%zero, %y#0, %y#1) {jaxpr = @back, length = 2 : i64, num_carry = 1 : i64, reverse = true} : (tensor<2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  return %sum : tensor<2xf32>
}
func.func private @step(%row: tensor<1x2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %r = "jaxpr.squeeze"(%row) {dimensions = array<i64: 0>} : (tensor<1x2xf32>) -> tensor<2xf32>
  %sin = "jaxpr.sin"(%r) : (tensor<2xf32>) -> tensor<2xf32>
  return %r, %sin : tensor<2xf32>, tensor<2xf32>
}
func.func private @back(%c: tensor<2xf32>, %r: tensor<2xf32>, %sin: tensor<2xf32>) -> tensor<2xf32> {
  %p = "jaxpr.mul"(%r, %sin) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %sum = "jaxpr.add"(%c, %p) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %sum : tensor<2xf32>
}
