// RUN: jaxmlir-opt %s --jaxpr-verify --split-input-file --verify-diagnostics

// Checks that JAX makes when it creates an equation, but not for an existing equation: ranges of
// attributes, signatures of functions, and effects.

func.func @permutation(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // expected-error@+1 {{'jaxpr.transpose' op attribute 'permutation': expected different dimensions of tensor<2x3xf32>, counted from 0, got array<i64: 1, 1>}}
  %0 = "jaxpr.transpose"(%x) {permutation = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @sort_keys(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.sort' op attribute 'num_keys': expected 1 to 1 for 1 operand, got 2}}
  %0 = "jaxpr.sort"(%x) {dimension = 0 : i64, is_stable = true, num_keys = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// XLA would end the process for an axis that is named twice.
func.func @mesh_axes(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.psum' op attribute 'axes': expected different axes, got ["i", "i"]}}
  %0 = "jaxpr.psum"(%x) {axes = ["i", "i"], axis_index_groups = none} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @identity(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func @index_of_a_branch(%i: tensor<2xi32>, %x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.cond' op operand #0: expected an i32, the index of a branch, got tensor<2xi32>}}
  %0 = "jaxpr.cond"(%i, %x) {branches = [@identity, @identity]} : (tensor<2xi32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func private @first(%x: tensor<f32>, %y: tensor<i32>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func @function_of_a_reduction(%x: tensor<4xf32>, %start: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.reduce' op attribute 'jaxpr': expected a function that takes tensor<f32> for other element #0, got @first, which takes tensor<i32>}}
  %0 = "jaxpr.reduce"(%x, %start) {dimensions = array<i64: 0>, jaxpr = @first} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Without its effect, the write would be dropped, because its result is not used.
func.func @effect(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.new_ref"(%x) {jaxpr.effects = [{InternalMutableArrayEffect = none}]} : (tensor<3xf32>) -> !jaxpr.ref<tensor<3xf32>>
  // expected-error@+1 {{'jaxpr.swap' op attribute 'jaxpr.effects': expected it to list {WriteEffect = 0 : i64} (by JAX's abstract evaluation of swap); an op without its effects may be dropped or reordered}}
  %1 = "jaxpr.swap"(%0, %y) {tree = {pytree = []}} : (!jaxpr.ref<tensor<3xf32>>, tensor<3xf32>) -> tensor<3xf32>
  %2 = "jaxpr.freeze"(%0) {jaxpr.effects = [{InternalMutableArrayEffect = none}]} : (!jaxpr.ref<tensor<3xf32>>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}

// -----

// The size of the result is too large for any type.
func.func @padding(%x: tensor<4xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{'jaxpr.reduce_window_min' op result #0: expected float32[9223372036854775810] (by JAX's abstract evaluation of reduce_window_min), got tensor<3xf32>}}
  %0 = "jaxpr.reduce_window_min"(%x) {base_dilation = array<i64: 1>, padding = [array<i64: 9223372036854775807, 0>], window_dilation = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func private @step(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func @carry_of_a_loop(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.scan' op attribute 'num_carry': expected 0 to 1 for 1 operand and 1 result, got 7}}
  %0 = "jaxpr.scan"(%x) {jaxpr = @step, length = 3 : i64, num_carry = 7 : i64} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func private @step(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func @length_of_a_loop(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+2 {{'jaxpr.scan' op operand #0: expected 3 slices, got tensor<4xf32>}}
  // expected-error@+1 {{'jaxpr.scan' op result #0: expected 3 slices, got tensor<4xf32>}}
  %0 = "jaxpr.scan"(%x) {jaxpr = @step, length = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @no_effect(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.sin' op: attribute 'jaxpr.effects': expected a list of effects, got ["read"]}}
  %0 = "jaxpr.sin"(%x) {jaxpr.effects = ["read"]} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @context(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.sin' op: attribute 'jaxpr.ctx': expected some of 'compute_type', 'threefry_partitionable', 'cur_abstract_mesh',}}
  %0 = "jaxpr.sin"(%x) {jaxpr.ctx = {metadata = "fast"}} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func private @called(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
func.func @one_flag_for_each(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.jit' op attribute 'donated_invars': expected 1 item, one for each operand, got array<i1: true, false>}}
  %0 = "jaxpr.jit"(%x) {donated_invars = array<i1: true, false>, jaxpr = @called, name = "called"} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
