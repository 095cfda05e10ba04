// A complex number is known when its real part and its imaginary part are known.

// RUN: jaxmlir-opt --jaxpr-inverse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '1.0, 2.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[RE:.*]]: tensor<f32>, %[[IM:.*]]: tensor<f32>) -> tensor<complex<f32>> {
// CHECK-NEXT:   %[[Z:.*]] = "jaxpr.complex"(%[[RE]], %[[IM]])
// CHECK-NEXT:   %[[W:.*]] = "jaxpr.conj"(%[[Z]])
// CHECK-NEXT:   return %[[W]]

// EXEC: result: c64[] = {{\(?}}1{{[.0]*}}-2{{[.0]*}}j
func.func public @f(%z: tensor<complex<f32>>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.conj"(%z) {input_dtype = complex<f32>} : (tensor<complex<f32>>) -> tensor<complex<f32>>
  %1 = "jaxpr.real"(%0) : (tensor<complex<f32>>) -> tensor<f32>
  %2 = "jaxpr.imag"(%0) : (tensor<complex<f32>>) -> tensor<f32>
  return %1, %2 : tensor<f32>, tensor<f32>
}
