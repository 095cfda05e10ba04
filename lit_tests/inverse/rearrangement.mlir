// The inverse of an op that moves elements moves the elements back; its log-determinant is 0.

// RUN: jaxmlir-opt --jaxpr-inverse=log-det=true %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse
// CHECK-NEXT:   "jaxpr.rev"
// CHECK-NEXT:   "jaxpr.reshape"({{.*}}) {new_sizes = array<i64: 3, 2>}
// CHECK-NEXT:   "jaxpr.transpose"({{.*}}) {permutation = array<i64: 1, 0>}
// CHECK-NEXT:   "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK-NEXT:   return

// EXEC:      result[0]: f32[2,3] = {{\[\[}}6.0, 4.0, 2.0],
// EXEC-NEXT:   [5.0, 3.0, 1.0]
// EXEC-NEXT: result[1]: f32[] = 0.0
func.func public @f(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %0 = "jaxpr.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "jaxpr.reshape"(%0) {new_sizes = array<i64: 6>} : (tensor<3x2xf32>) -> tensor<6xf32>
  %2 = "jaxpr.rev"(%1) {dimensions = array<i64: 0>} : (tensor<6xf32>) -> tensor<6xf32>
  return %2 : tensor<6xf32>
}
