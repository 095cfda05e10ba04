// A call in a loop is not opaque: each value that the called function computes is stored or recomputed by itself.

// RUN: jaxmlir-opt --jaxpr-remat=calls=inf %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s --args '[1.6,2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1.6,2.0]' | FileCheck %s --check-prefix=EXEC

// Both values follow from x, so x is stored, and the first loop needs no cosine.
// CHECK-NOT:  jaxpr.jit
// CHECK:      func.func private @step{{.*}}(%[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[X]])
// CHECK-NEXT:   %[[Y:.*]] = "jaxpr.mul"(%[[X]], %[[SIN]])
// CHECK-NEXT:   return %[[Y]], %[[X]]
// CHECK-NOT:  jaxpr.jit

// EXEC: result: f32[2] = [0.67277{{[0-9]+}}, 0.0062650{{[0-9]+}}]
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y:4 = "jaxpr.scan"(%x) {jaxpr = @step, length = 9 : i64, num_carry = 1 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<9x2xf32>)
  %one = "jaxpr.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %ct = "jaxpr.scan"(%one, %y#1, %y#2, %y#3) {jaxpr = @back, length = 9 : i64, num_carry = 1 : i64, reverse = true} : (tensor<2xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<9x2xf32>) -> tensor<2xf32>
  return %ct : tensor<2xf32>
}
func.func private @step(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0:2 = "jaxpr.jit"(%x) {jaxpr = @sin_and_cos, name = "sin_and_cos"} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %y = "jaxpr.mul"(%x, %0#0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y, %x, %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func private @sin_and_cos(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %sin = "jaxpr.sin"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %cos = "jaxpr.cos"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %sin, %cos : tensor<2xf32>, tensor<2xf32>
}
func.func private @back(%ct: tensor<2xf32>, %x: tensor<2xf32>, %sin: tensor<2xf32>, %cos: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%ct, %sin) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.mul"(%ct, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.mul"(%1, %cos) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "jaxpr.add"(%0, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}
