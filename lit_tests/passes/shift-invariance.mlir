// A maximum that the result does not depend on is not differentiated.

// RUN: jaxmlir-opt --jaxpr-shift-invariance %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-shift-invariance %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-shift-invariance --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// Each exponential is scaled by exp(-m), and so is their sum; their quotient does not depend on m.
// REMARK: shift-invariance.mlir:{{[0-9]+}}:8: remark: [jaxpr-shift-invariance] excluded from differentiation: the results do not depend on it
// REMARK: shift-invariance.mlir:{{[0-9]+}}:8: remark: [jaxpr-shift-invariance] excluded from differentiation: the results do not depend on it
// REMARK-NOT: remark
// CHECK-LABEL: func.func public @softmax
// CHECK-NEXT:    %[[MAX:.*]] = "jaxpr.reduce_max"(%arg0)
// CHECK-NEXT:    %[[M:.*]] = "jaxpr.stop_gradient"(%[[MAX]]) : (tensor<f32>) -> tensor<f32>
// CHECK-NEXT:    "jaxpr.sub"(%arg0, %[[M]])
// CHECK:         "jaxpr.jit"(%{{.*}}) {jaxpr = @exponential
// EXEC:          result[0]: f32[3] = [0.0900305{{.*}}, 0.244728{{.*}}, 0.665240{{.*}}]
// EXEC-NEXT:     result[1]: f32[3] = [0.36787{{.*}}, 0.60653{{.*}}, 1.0]
func.func public @softmax(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "jaxpr.reduce_max"(%x) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %1 = "jaxpr.sub"(%x, %0) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %2 = "jaxpr.exp"(%1) : (tensor<3xf32>) -> tensor<3xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %4 = "jaxpr.div"(%2, %3) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %half = "jaxpr.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %5 = "jaxpr.mul"(%x, %half) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %6 = "jaxpr.jit"(%5) {jaxpr = @exponential, name = "exponential"} : (tensor<3xf32>) -> tensor<3xf32>
  return %4, %6 : tensor<3xf32>, tensor<3xf32>
}

// The exponentials themselves are results, and they do depend on the maximum.
// CHECK-LABEL: func.func private @exponential
// CHECK-NOT:     stop_gradient
func.func private @exponential(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.reduce_max"(%x) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %1 = "jaxpr.sub"(%x, %0) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %2 = "jaxpr.exp"(%1) : (tensor<3xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}

// The quotient is stored in 16 bits, and the terms are scaled by a number of 16 bits.
// CHECK-LABEL: func.func private @narrow
// CHECK:         stop_gradient
func.func private @narrow(%x: tensor<3xbf16>) -> tensor<3xbf16> {
  %half = "jaxpr.constant"() {value = dense<0.5> : tensor<bf16>} : () -> tensor<bf16>
  %0 = "jaxpr.reduce_max"(%x) {axes = array<i64: 0>} : (tensor<3xbf16>) -> tensor<bf16>
  %1 = "jaxpr.sub"(%x, %0) : (tensor<3xbf16>, tensor<bf16>) -> tensor<3xbf16>
  %2 = "jaxpr.mul"(%1, %half) : (tensor<3xbf16>, tensor<bf16>) -> tensor<3xbf16>
  %3 = "jaxpr.exp"(%2) : (tensor<3xbf16>) -> tensor<3xbf16>
  %4 = "jaxpr.convert_element_type"(%3) {new_dtype = f32} : (tensor<3xbf16>) -> tensor<3xf32>
  %5 = "jaxpr.reduce_sum"(%4) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %6 = "jaxpr.convert_element_type"(%5) {new_dtype = bf16} : (tensor<f32>) -> tensor<bf16>
  %7 = "jaxpr.div"(%3, %6) : (tensor<3xbf16>, tensor<bf16>) -> tensor<3xbf16>
  return %7 : tensor<3xbf16>
}
