// If the program cannot be inverted, the error names the op, its location and the reason.

// RUN: jaxmlir-opt --jaxpr-inverse --split-input-file --verify-diagnostics %s

func.func public @many_to_one(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.floor' op cannot be inverted: floor is many-to-one}}
  %0 = "jaxpr.floor"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func public @two_unknowns(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.add' op cannot be inverted: its operands 0 and 1 are unknown}}
  %0 = "jaxpr.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func public @lossy(%x: tensor<f32>) -> tensor<i32> {
  // expected-error@+1 {{'jaxpr.convert_element_type' op cannot be inverted: int32 does not hold every value of float32}}
  %0 = "jaxpr.convert_element_type"(%x) {new_dtype = i32} : (tensor<f32>) -> tensor<i32>
  return %0 : tensor<i32>
}

// -----

func.func public @wide(%x: tensor<3xf32>) -> tensor<2xf32> {
  %a = "jaxpr.constant"() {value = dense<1.0> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  // expected-error@+1 {{'jaxpr.dot_general' op cannot be inverted: the known matrix is 2 by 3, not square}}
  %0 = "jaxpr.dot_general"(%a, %x) {dimension_numbers = [[array<i64: 1>, array<i64: 0>], [[], []]]} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func public @in_a_loop(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.scan' op cannot be inverted: carried value 0 before a step does not follow from the carry after it}}
  %0 = "jaxpr.scan"(%x) {jaxpr = @body, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @body(%x: tensor<f32>) -> tensor<f32> {
  // expected-note@+1 {{'jaxpr.abs' op cannot be inverted: x and -x have the same absolute value}}
  %0 = "jaxpr.abs"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func public @unknown_branch(%x: tensor<f32>) -> tensor<f32> {
  %i = "jaxpr.convert_element_type"(%x) {new_dtype = i32} : (tensor<f32>) -> tensor<i32>
  // expected-error@+1 {{'jaxpr.cond' op cannot be inverted: which branch was taken is unknown}}
  %0 = "jaxpr.cond"(%i, %x) {branches = [@same, @same]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @same(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
