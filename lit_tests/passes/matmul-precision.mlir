// Products with operands of bfloat16 that accumulate in float32: types of arguments and results stay.

// RUN: jaxmlir-opt --jaxpr-matmul-precision %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --args '[[1.001, 2.0]], [[3.0], [4.0]]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-matmul-precision='min-size=3' %s | FileCheck %s --check-prefix=SMALL

// CHECK:      func.func public @f(%[[X:.*]]: tensor<1x2xf32>, %[[Y:.*]]: tensor<2x1xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>)
// CHECK-NEXT:   %[[XN:.*]] = "jaxpr.convert_element_type"(%[[X]]) {new_dtype = bf16} : (tensor<1x2xf32>) -> tensor<1x2xbf16>
// CHECK-NEXT:   %[[YN:.*]] = "jaxpr.convert_element_type"(%[[Y]]) {new_dtype = bf16} : (tensor<2x1xf32>) -> tensor<2x1xbf16>
// CHECK-NEXT:   %[[P:.*]] = "jaxpr.dot_general"(%[[XN]], %[[YN]]) {dimension_numbers = {{.*}}, preferred_element_type = f32} : (tensor<1x2xbf16>, tensor<2x1xbf16>) -> tensor<1x1xf32>

// A product with an explicit precision stays as it is.
// CHECK-NEXT:   %[[Q:.*]] = "jaxpr.dot_general"(%[[X]], %[[Y]])
// CHECK-NEXT:   return %[[P]], %[[Q]]

// 1.001 is 1 in bfloat16.
// EXEC:      result[0]: f32[1,1] = {{\[\[11.0?\]\]}}
// EXEC-NEXT: result[1]: f32[1,1] = {{\[\[11.003[0-9]*\]\]}}

// SMALL-NOT: bf16
func.func public @f(%x: tensor<1x2xf32>, %y: tensor<2x1xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>) {
  %0 = "jaxpr.dot_general"(%x, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]]} : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  %1 = "jaxpr.dot_general"(%x, %y) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]], precision = [{Precision = "HIGHEST"}, {Precision = "HIGHEST"}]} : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  return %0, %1 : tensor<1x1xf32>, tensor<1x1xf32>
}
