// If the option asks for it, a loop solves for an unknown that occurs more than once.

// RUN: jaxmlir-opt --jaxpr-inverse=newton=true %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[3.0, -2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: not jaxmlir-opt --jaxpr-inverse %s 2>&1 | FileCheck %s --check-prefix=ERROR

// CHECK-LABEL: func.func private @f.inverse(
// CHECK:         "jaxpr.custom_jvp_call_jaxpr"
// CHECK:       "jaxpr.while"

// The function is strictly monotone: 1 + 2 = 3, -1 - 1 = -2
// EXEC: result: f32[2] = [1.0, -1.0]

// ERROR: error: 'jaxpr.add' op cannot be inverted: its operands 0 and 1 are unknown
// ERROR: note: jaxmlir.custom_inverse gives a function that contains the op its own inverse; newton=True
func.func public @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = "jaxpr.constant"() {value = dense<[2.0, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "jaxpr.integer_pow"(%x) {y = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.mul"(%0, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.add"(%1, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
