// Products of small matrices become elementwise ops, large products of complex matrices those of their parts.

// RUN: jaxmlir-opt --jaxpr-expand-products=calls=inf %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-products=calls=inf %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-opt --jaxpr-expand-products=max-size=1 %s | FileCheck %s --check-prefix=SHORT
// RUN: jaxmlir-opt --jaxpr-expand-products=calls=inf %t | diff %t -
// RUN: jaxmlir-run %s --args '[1.0, 2.0], [3.0, 4.0, 5.0], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1.0, 2.0], [3.0, 4.0, 5.0], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-expand-products=calls=inf --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-products.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-products] expanded into elementwise products

// CHECK-LABEL: func.func public @main
// CHECK:         %[[X:.*]] = "jaxpr.broadcast_in_dim"(%arg0) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 2, 3>}
// CHECK:         %[[Y:.*]] = "jaxpr.broadcast_in_dim"(%arg1) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 2, 3>}
// CHECK:         %[[OUTER:.*]] = "jaxpr.mul"(%[[X]], %[[Y]])
// CHECK:         %[[ROWS:.*]] = "jaxpr.mul"(%[[OUTER]], %arg2)
// CHECK:         "jaxpr.reduce_sum"(%[[ROWS]]) {axes = array<i64: 1>
// CHECK:         "jaxpr.dot_general"(%arg2, %arg1)

// A single product of small matrices becomes one product and a sum; a large batch is added up term by term.
// CHECK-LABEL: func.func private @few
// CHECK:         %[[FEW:.*]] = "jaxpr.mul"({{.*}}) : (tensor<2x2x2xf32>, tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
// CHECK:         "jaxpr.reduce_sum"(%[[FEW]]) {axes = array<i64: 2>
// CHECK-LABEL: func.func private @many
// CHECK:         %[[LEFT:.*]] = "jaxpr.slice"(%arg0) {limit_indices = array<i64: 500, 2, 1>, start_indices = array<i64: 0, 0, 0>}
// CHECK:         %[[FIRST:.*]] = "jaxpr.mul"({{.*}}) : (tensor<500x2x2xf32>, tensor<500x2x2xf32>)
// CHECK:         %[[SECOND:.*]] = "jaxpr.mul"({{.*}}) : (tensor<500x2x2xf32>, tensor<500x2x2xf32>)
// CHECK:         %[[BOTH:.*]] = "jaxpr.add"(%[[FIRST]], %[[SECOND]])
// CHECK:         return %[[BOTH]]
// CHECK-LABEL: func.func private @large
// CHECK-NEXT:    "jaxpr.dot_general"

// Four products of real and imaginary parts, or two if one operand is real.
// CHECK-LABEL: func.func private @complex
// CHECK:         %[[A:.*]] = "jaxpr.real"(%arg0)
// CHECK:         %[[B:.*]] = "jaxpr.imag"(%arg0)
// CHECK:         %[[C:.*]] = "jaxpr.real"(%arg1)
// CHECK:         %[[D:.*]] = "jaxpr.imag"(%arg1)
// CHECK:         %[[AC:.*]] = "jaxpr.dot_general"(%[[A]], %[[C]])
// CHECK:         %[[BD:.*]] = "jaxpr.dot_general"(%[[B]], %[[D]])
// CHECK:         %[[RE:.*]] = "jaxpr.sub"(%[[AC]], %[[BD]])
// CHECK:         %[[AD:.*]] = "jaxpr.dot_general"(%[[A]], %[[D]])
// CHECK:         %[[BC:.*]] = "jaxpr.dot_general"(%[[B]], %[[C]])
// CHECK:         %[[IM:.*]] = "jaxpr.add"(%[[AD]], %[[BC]])
// CHECK:         "jaxpr.complex"(%[[RE]], %[[IM]])
// CHECK-LABEL: func.func private @of_real
// CHECK:         %[[RE:.*]] = "jaxpr.dot_general"(%arg0, %{{.*}}) {{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>)
// CHECK:         %[[IM:.*]] = "jaxpr.dot_general"(%arg0, %{{.*}}) {{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>)
// CHECK:         "jaxpr.complex"(%[[RE]], %[[IM]])

// SHORT:         "jaxpr.mul"
// SHORT-NOT:     "jaxpr.mul"

// EXEC: result[0]: f32[2] = [26.0, 124.0]
// EXEC: result[1]: f32[2] = [26.0, 62.0]
// EXEC: result[2]: f32[2,2] = {{\[\[}}19.0, 22.0],
// EXEC-NEXT: [43.0, 50.0]]
// EXEC: result[3]: f32[2,2] = {{\[\[}}19.0, 22.0],
// EXEC-NEXT: [43.0, 50.0]]
// (1 + 2i) (3 + 4i) and 5 (3 + 4i), times 64.
// EXEC: result[4]: c64[] = {{.*}}-320{{.*}}640
// EXEC: result[5]: c64[] = {{.*}}960{{.*}}1280
func.func public @main(%x: tensor<2xf32>, %y: tensor<3xf32>, %m: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<complex<f32>>, tensor<complex<f32>>) {
  // x[i] * y[j]
  %0 = "jaxpr.dot_general"(%x, %y) {dimension_numbers = [[[], []], [[], []]], preferred_element_type = f32} : (tensor<2xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // The sum of the products of each row.
  %1 = "jaxpr.dot_general"(%0, %m) {dimension_numbers = [[array<i64: 1>, array<i64: 1>], [array<i64: 0>, array<i64: 0>]], preferred_element_type = f32} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  // A product of a matrix and a vector stays.
  %2 = "jaxpr.dot_general"(%m, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  %left = "jaxpr.constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %right = "jaxpr.constant"() {value = dense<[[5.0, 6.0], [7.0, 8.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %3 = "jaxpr.jit"(%left, %right) {jaxpr = @few, name = "few"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %lefts = "jaxpr.broadcast_in_dim"(%left) {broadcast_dimensions = array<i64: 1, 2>, shape = array<i64: 500, 2, 2>} : (tensor<2x2xf32>) -> tensor<500x2x2xf32>
  %rights = "jaxpr.broadcast_in_dim"(%right) {broadcast_dimensions = array<i64: 1, 2>, shape = array<i64: 500, 2, 2>} : (tensor<2x2xf32>) -> tensor<500x2x2xf32>
  %all = "jaxpr.jit"(%lefts, %rights) {jaxpr = @many, name = "many"} : (tensor<500x2x2xf32>, tensor<500x2x2xf32>) -> tensor<500x2x2xf32>
  %one = "jaxpr.slice"(%all) {start_indices = array<i64: 499, 0, 0>, limit_indices = array<i64: 500, 2, 2>} : (tensor<500x2x2xf32>) -> tensor<1x2x2xf32>
  %4 = "jaxpr.squeeze"(%one) {dimensions = array<i64: 0>} : (tensor<1x2x2xf32>) -> tensor<2x2xf32>
  %a = "jaxpr.constant"() {value = dense<(1.0, 2.0)> : tensor<64x64xcomplex<f32>>} : () -> tensor<64x64xcomplex<f32>>
  %b = "jaxpr.constant"() {value = dense<(3.0, 4.0)> : tensor<64x64xcomplex<f32>>} : () -> tensor<64x64xcomplex<f32>>
  %c = "jaxpr.constant"() {value = dense<5.0> : tensor<64x64xf32>} : () -> tensor<64x64xf32>
  %5 = "jaxpr.jit"(%a, %b) {jaxpr = @complex, name = "complex"} : (tensor<64x64xcomplex<f32>>, tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>>
  %6 = "jaxpr.jit"(%c, %b) {jaxpr = @of_real, name = "of_real"} : (tensor<64x64xf32>, tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>>
  %7 = "jaxpr.slice"(%5) {start_indices = array<i64: 63, 63>, limit_indices = array<i64: 64, 64>} : (tensor<64x64xcomplex<f32>>) -> tensor<1x1xcomplex<f32>>
  %8 = "jaxpr.slice"(%6) {start_indices = array<i64: 63, 63>, limit_indices = array<i64: 64, 64>} : (tensor<64x64xcomplex<f32>>) -> tensor<1x1xcomplex<f32>>
  %9 = "jaxpr.squeeze"(%7) {dimensions = array<i64: 0, 1>} : (tensor<1x1xcomplex<f32>>) -> tensor<complex<f32>>
  %10 = "jaxpr.squeeze"(%8) {dimensions = array<i64: 0, 1>} : (tensor<1x1xcomplex<f32>>) -> tensor<complex<f32>>
  return %1, %2, %3, %4, %9, %10 : tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<complex<f32>>, tensor<complex<f32>>
}

func.func private @few(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = "jaxpr.dot_general"(%x, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

func.func private @many(%x: tensor<500x2x2xf32>, %y: tensor<500x2x2xf32>) -> tensor<500x2x2xf32> {
  %0 = "jaxpr.dot_general"(%x, %y) {dimension_numbers = [[array<i64: 2>, array<i64: 1>], [array<i64: 0>, array<i64: 0>]], preferred_element_type = f32} : (tensor<500x2x2xf32>, tensor<500x2x2xf32>) -> tensor<500x2x2xf32>
  return %0 : tensor<500x2x2xf32>
}

func.func private @large(%x: tensor<64x4xf32>, %y: tensor<4x64xf32>) -> tensor<64x64xf32> {
  %0 = "jaxpr.dot_general"(%x, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = f32} : (tensor<64x4xf32>, tensor<4x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

func.func private @complex(%x: tensor<64x64xcomplex<f32>>, %y: tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>> {
  %0 = "jaxpr.dot_general"(%x, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = complex<f32>} : (tensor<64x64xcomplex<f32>>, tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>>
  return %0 : tensor<64x64xcomplex<f32>>
}

func.func private @of_real(%x: tensor<64x64xf32>, %y: tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>> {
  %0 = "jaxpr.convert_element_type"(%x) {new_dtype = complex<f32>} : (tensor<64x64xf32>) -> tensor<64x64xcomplex<f32>>
  %1 = "jaxpr.dot_general"(%0, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], preferred_element_type = complex<f32>} : (tensor<64x64xcomplex<f32>>, tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>>
  return %1 : tensor<64x64xcomplex<f32>>
}
