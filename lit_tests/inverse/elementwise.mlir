// Each elementwise op is inverted by an op or an expression. If the op has several inverses, the
// principal branch is taken: the square root for a square, the arc sine for a sine.

// RUN: jaxmlir-opt --jaxpr-inverse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[0.25, 0.75]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT:   %[[LOG:.*]] = "jaxpr.log"(%[[Y]])
// CHECK-NEXT:   %[[NEG:.*]] = "jaxpr.neg"(%[[Y]])
// CHECK-NEXT:   %[[LOG1P:.*]] = "jaxpr.log1p"(%[[NEG]])
// CHECK-NEXT:   %[[LOGIT:.*]] = "jaxpr.sub"(%[[LOG]], %[[LOG1P]])
// CHECK-NEXT:   %[[CUBE:.*]] = "jaxpr.integer_pow"(%[[LOGIT]]) {y = 3 : i64}
// CHECK-NEXT:   %[[X:.*]] = "jaxpr.asinh"(%[[CUBE]])
// CHECK-NEXT:   return %[[X]]

// asinh(log(3) ** 3)
// EXEC: result: f32[2] = [-1.09{{[0-9]*}}, 1.09{{[0-9]*}}]
func.func public @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sinh"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.cbrt"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.logistic"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
