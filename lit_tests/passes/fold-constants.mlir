// Values that depend only on constants are computed once.

// RUN: jaxmlir-opt --jaxpr-fold-constants='min-work=1' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-fold-constants='min-work=1' %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[1.0, 1.0], [2.0, 2.0]]' > %t.before
// RUN: jaxmlir-run %t --args '[[1.0, 1.0], [2.0, 2.0]]' > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after
// RUN: jaxmlir-opt --jaxpr-fold-constants='min-work=1' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: jaxmlir-opt --jaxpr-fold-constants %s -o %t
// RUN: FileCheck %s --check-prefix=LITTLE < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-fold-constants='min-work=1' %s -o %t
// RUN: FileCheck %s --check-prefix=LITTLE < %t

// The sum is work, so it is folded; the transpose is no work, so it stays.
// REMARK: fold-constants.mlir:{{[0-9]+}}:8: remark: [jaxpr-fold-constants] computed once: 3 ops on constants
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[X:.*]]: tensor<2x2xf32>)
// CHECK-NEXT:    %[[C:.*]] = "jaxpr.constant"() {value = dense<{{\[\[}}1.100000e+01, 2.200000e+01], [3.300000e+01, 4.400000e+01]]> : tensor<2x2xf32>}
// CHECK-NEXT:    %[[T:.*]] = "jaxpr.transpose"(%[[C]])
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.mul"(%[[T]], %[[X]])
// CHECK-NEXT:    return %[[Y]]
// LITTLE-LABEL: func.func public @main
// LITTLE:         "jaxpr.add"
// EXEC: 11
func.func public @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %a = "jaxpr.constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %b = "jaxpr.constant"() {value = dense<[[10.0, 20.0], [30.0, 40.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %0 = "jaxpr.add"(%a, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "jaxpr.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = "jaxpr.mul"(%1, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

// Random numbers, and loops with an unknown number of iterations, are not folded: nothing changes here.
// CHECK-LABEL: func.func private @random
// CHECK:         "jaxpr.threefry2x32"
// CHECK-LABEL: func.func private @unknown_turns
// CHECK:         "jaxpr.while"
func.func private @random() -> (tensor<2xui32>, tensor<2xui32>) {
  %k = "jaxpr.constant"() {value = dense<1> : tensor<ui32>} : () -> tensor<ui32>
  %n = "jaxpr.constant"() {value = dense<[2, 3]> : tensor<2xui32>} : () -> tensor<2xui32>
  %0:2 = "jaxpr.threefry2x32"(%k, %k, %n, %n) : (tensor<ui32>, tensor<ui32>, tensor<2xui32>, tensor<2xui32>) -> (tensor<2xui32>, tensor<2xui32>)
  return %0#0, %0#1 : tensor<2xui32>, tensor<2xui32>
}
func.func private @unknown_turns() -> tensor<f32> {
  %c = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.while"(%c) {body_jaxpr = @halved, body_nconsts = 0 : i64, cond_jaxpr = @is_large, cond_nconsts = 0 : i64} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @halved(%x: tensor<f32>) -> tensor<f32> {
  %c = "jaxpr.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.mul"(%x, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @is_large(%x: tensor<f32>) -> tensor<i1> {
  %c = "jaxpr.constant"() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.gt"(%x, %c) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
