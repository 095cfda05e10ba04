// On a TPU, a maximum that is replaced if it is infinite is computed from finite numbers instead.

// RUN: jaxmlir-opt --target=tpu --jaxpr-bound-maxima %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-bound-maxima %s | FileCheck %s --check-prefix=LEFT
// RUN: jaxmlir-run %s --entry main --args "[[0.5, 0.5, inf], [0.5, -inf, 1.0]]" | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --entry main --args "[[0.5, 0.5, inf], [0.5, -inf, 1.0]]" | FileCheck %s --check-prefix=EXEC

// CHECK-LABEL: func.func public @main
// CHECK:         %[[IS_FINITE:.*]] = "jaxpr.is_finite"(%arg0)
// CHECK-NEXT:    %[[FINITE:.*]] = "jaxpr.select_n"(%[[IS_FINITE]], %{{.*}}, %arg0)
// CHECK-NEXT:    %[[TERMS:.*]] = "jaxpr.stop_gradient"(%[[FINITE]])
// CHECK-NEXT:    %[[M:.*]] = "jaxpr.reduce_max"(%[[TERMS]]) {axes = array<i64: 0>}
// CHECK-NEXT:    "jaxpr.stop_gradient"(%[[M]])
// CHECK-NOT:     "jaxpr.select_n"
// LEFT-LABEL:  func.func public @main
// LEFT:          "jaxpr.is_finite"

// Here the result itself is the number that replaces an infinity, so the maximum stays as it is.
// CHECK-LABEL: func.func public @result
// CHECK:         "jaxpr.is_finite"

// EXEC: result: f32[3] = [1.193{{[0-9]*}}, 0.5, inf]
func.func public @main(%x: tensor<2x3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.reduce_max"(%x) {axes = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3xf32>
  %1 = "jaxpr.is_finite"(%0) : (tensor<3xf32>) -> tensor<3xi1>
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %2 = "jaxpr.select_n"(%1, %zero, %0) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = "jaxpr.stop_gradient"(%2) : (tensor<3xf32>) -> tensor<3xf32>
  %4 = "jaxpr.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 1, 3>} : (tensor<3xf32>) -> tensor<1x3xf32>
  %5 = "jaxpr.sub"(%x, %4) : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %6 = "jaxpr.exp"(%5) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = "jaxpr.reduce_sum"(%6) {axes = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3xf32>
  %8 = "jaxpr.log"(%7) : (tensor<3xf32>) -> tensor<3xf32>
  %9 = "jaxpr.add"(%8, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %9 : tensor<3xf32>
}

func.func public @result(%x: tensor<2x3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.reduce_max"(%x) {axes = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3xf32>
  %1 = "jaxpr.is_finite"(%0) : (tensor<3xf32>) -> tensor<3xi1>
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %2 = "jaxpr.select_n"(%1, %zero, %0) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
