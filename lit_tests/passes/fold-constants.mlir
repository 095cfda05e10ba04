// An example of a pass that is loaded from a module: what is known is computed by the interpreter,
// calls and loops included.
//
//   f(x) = x + twice(1.5) + (8 doublings of 1)

// RUN: cd %S/../../examples/passes && jaxmlir-opt --load fold_constants --fold-constants --jaxpr-dce --symbol-dce %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --args '0.5' | FileCheck %s --check-prefix=EXEC
// RUN: cd %S/../../examples/passes && jaxmlir-opt --load fold_constants --fold-constants='max-elements=0' %s | FileCheck %s --check-prefix=NONE
// RUN: cd %S/../../examples/passes && jaxmlir-opt --load fold_constants --list-passes | FileCheck %s --check-prefix=LIST

// CHECK:      func.func public @f(%[[X:.*]]: tensor<f32>) -> tensor<f32>
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.constant"() {value = dense<3.000000e+00> : tensor<f32>}
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.constant"() {value = dense<2.560000e+02> : tensor<f32>}
// CHECK-NEXT:   %[[C:.*]] = "jaxpr.add"(%[[X]], %[[A]])
// CHECK-NEXT:   %[[D:.*]] = "jaxpr.add"(%[[C]], %[[B]])
// CHECK-NEXT:   return %[[D]]
// CHECK-NOT:  func.func private

// EXEC: result: f32[] = 259.5

// NONE: "jaxpr.jit"
// NONE: "jaxpr.scan"

// LIST: --fold-constants                   - Replace ops on constants by their values
// LIST: max-elements=<int>             - leave results of more elements to be computed at run time
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<1.5> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.jit"(%0) {jaxpr = @twice} : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "jaxpr.scan"(%2) {jaxpr = @twice, length = 8 : i64, num_carry = 1 : i64} : (tensor<f32>) -> tensor<f32>
  %4 = "jaxpr.add"(%x, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %5 = "jaxpr.add"(%4, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %5 : tensor<f32>
}
func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
