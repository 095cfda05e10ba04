// RUN: jaxmlir-translate --stablehlo-to-jaxpr %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --args '[1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-grad %t -o %t.grad
// RUN: jaxmlir-run %t.grad --entry=main.grad --args '[1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=GRAD

// Sizes that are not numbers become symbolic dimensions. A loop over such a size becomes a scan: here,
// the product of all elements, times the number of elements.

// CHECK:      func.func public @main(%[[X:.*]]: tensor<?xf32, {shape = "d0_0"}>) -> tensor<f32>
// CHECK:        "jaxpr.dim_as_value"() {dim = {dim = "d0_0"}}
// CHECK:        "jaxpr.scan"({{.*}}%[[X]]) {jaxpr = @body, length = {dim = "d0_0"}, num_carry = 2 : i64}
// CHECK:      func.func private @body(%{{.*}}: tensor<i32>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>)
// CHECK-NOT:    dynamic_slice

// EXEC: result: f32[] = 18.0
// GRAD: f32[3] = [18.0, 9.0, 6.0]
func.func public @main(%x: tensor<?xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %start = stablehlo.constant dense<1.0> : tensor<f32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %start) : tensor<i32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<?xf32>, tensor<i32>) -> tensor<1xf32>
    %element = stablehlo.reshape %row : (tensor<1xf32>) -> tensor<f32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %product = stablehlo.multiply %y, %element : tensor<f32>
    stablehlo.return %next, %product : tensor<i32>, tensor<f32>
  }
  %count = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
  %1 = stablehlo.multiply %0#1, %count : tensor<f32>
  return %1 : tensor<f32>
}
