// The forward derivative of a function with a custom VJP rule is an error by default, as in JAX. With
// the option, it is the transpose of the backward rule, if this rule is linear in the cotangent.
//
//   bwd(x, ct) = 3 x ct    which is its own transpose in ct

// RUN: jaxmlir-opt --jaxpr-jvp=custom-vjp-forward=transpose %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.jvp --args '2.0, 10.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-linearize %s | jaxmlir-opt --jaxpr-expand-custom-lin - -o %t.lin
// RUN: jaxmlir-run %t.lin --entry=f.lin --args '2.0, 10.0' | FileCheck %s --check-prefix=LIN
// RUN: jaxmlir-opt --jaxpr-linearize=custom-vjp-forward=transpose %s -o %t.lin2
// RUN: jaxmlir-run %t.lin2 --entry=f.lin --args '2.0, 10.0' | FileCheck %s --check-prefix=LIN
// RUN: not jaxmlir-opt --jaxpr-jvp='func=g custom-vjp-forward=transpose' %s 2>&1 | FileCheck %s --check-prefix=AFFINE
// RUN: not jaxmlir-opt --jaxpr-jvp='func=h custom-vjp-forward=transpose' %s 2>&1 | FileCheck %s --check-prefix=SQUARE
// RUN: not jaxmlir-opt --jaxpr-jvp='func=i custom-vjp-forward=transpose' %s 2>&1 | FileCheck %s --check-prefix=ROUNDED
// RUN: not jaxmlir-opt --jaxpr-jvp='func=j custom-vjp-forward=transpose' %s 2>&1 | FileCheck %s --check-prefix=FILLED

// CHECK:      func.func private @f.jvp(%[[X:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// CHECK-NEXT:   %[[Y:.*]] = "jaxpr.jit"(%[[X]]) {jaxpr = @fwd
// CHECK-NEXT:   %[[DY:.*]] = "jaxpr.jit"(%[[X]], %[[T]]) {jaxpr = @bwd.transpose
// CHECK-NEXT:   return %[[Y]], %[[DY]]
// CHECK:      func.func private @bwd.transpose(%[[X:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)

// EXEC:      result[0]: f32[] = 4.0
// EXEC-NEXT: result[1]: f32[] = 60.0
// LIN: result: f32[] = 60.0

// Transposing would lose an added constant, and a square has no transpose.
// AFFINE: error: result 0 of @constant does not depend on the cotangents and is not zero
// SQUARE: error: 'jaxpr.mul' op in @square is not known to be linear in the cotangents
// ROUNDED: error: 'jaxpr.convert_element_type' op in @rounded is not known to be linear in the cotangents
// FILLED: error: 'jaxpr.gather' op in @filled is not known to be linear in the cotangents
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @twice, fwd_jaxpr = @fwd, bwd_jaxpr = @bwd} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @g(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @twice, fwd_jaxpr = @fwd, bwd_jaxpr = @constant} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @h(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @twice, fwd_jaxpr = @fwd, bwd_jaxpr = @square} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @fwd(%x: tensor<f32>) -> tensor<f32> attributes {jaxpr.input_fwds = array<i64: 0>, jaxpr.num_res = 1 : i64} {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @bwd(%x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %three = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.mul"(%three, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%x, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @constant(%x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func private @square(%x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%ct, %ct) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @i(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @twice, fwd_jaxpr = @fwd, bwd_jaxpr = @rounded} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @rounded(%x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.convert_element_type"(%ct) {new_dtype = i32} : (tensor<f32>) -> tensor<i32>
  %1 = "jaxpr.convert_element_type"(%0) {new_dtype = f32} : (tensor<i32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @j(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @twice, fwd_jaxpr = @fwd, bwd_jaxpr = @filled} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @filled(%x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %index = "jaxpr.constant"() {value = dense<5> : tensor<1xi32>} : () -> tensor<1xi32>
  %0 = "jaxpr.broadcast_in_dim"(%ct) {broadcast_dimensions = [], shape = array<i64: 3>} : (tensor<f32>) -> tensor<3xf32>
  %1 = "jaxpr.gather"(%0, %index) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = [], start_index_map = array<i64: 0>}}, fill_value = 7.000000e+00 : f64, mode = {GatherScatterMode = "FILL_OR_DROP"}, slice_sizes = array<i64: 1>} : (tensor<3xf32>, tensor<1xi32>) -> tensor<f32>
  return %1 : tensor<f32>
}
