// RUN: jaxmlir-opt %s --jaxpr-verify --split-input-file --verify-diagnostics

// Types must be the types that JAX's abstract evaluation of the primitive gives.

func.func @result_shape(%x: tensor<4xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{'jaxpr.add' op result #0: expected tensor<4xf32> (by JAX's abstract evaluation of add), got tensor<3xf32>}}
  %0 = "jaxpr.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @result_dtype(%x: tensor<4xf32>) -> tensor<4xi32> {
  // expected-error@+1 {{'jaxpr.sin' op result #0: expected tensor<4xf32> (by JAX's abstract evaluation of sin), got tensor<4xi32>}}
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @number_of_results(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{'jaxpr.split' op: expected 2 results (by JAX's abstract evaluation of split), got 1}}
  %0 = "jaxpr.split"(%x) {axis = 0 : i64, sizes = array<i64: 2, 2>} : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @refused_dtypes(%x: tensor<4xf32>, %y: tensor<4xi32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.add' op: expected operands that JAX's abstract evaluation accepts, got tensor<4xf32>, tensor<4xi32>: TypeError: lax.add requires arguments to have the same dtypes, got float32, int32.}}
  %0 = "jaxpr.add"(%x, %y) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @refused_parameters(%x: tensor<2x3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{'jaxpr.squeeze' op: expected operands that JAX's abstract evaluation accepts, got tensor<2x3xf32>: ValueError: cannot select an axis to squeeze out which has size not equal to one, got shape=(2, 3) and dimensions=(0,)}}
  %0 = "jaxpr.squeeze"(%x) {dimensions = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// expected-error@+1 {{'func.func' op argument #0: i7 is not the element type of a dtype of JAX}}
func.func @not_a_type_of_jax(%x: tensor<4xi7>) -> tensor<4xi7> {
  // expected-error@+1 {{'jaxpr.neg' op: i7 is not the element type of a dtype of JAX}}
  %0 = "jaxpr.neg"(%x) : (tensor<4xi7>) -> tensor<4xi7>
  return %0 : tensor<4xi7>
}

// -----

// Weak types do not matter, as in JAX.
func.func @weak(%x: tensor<f32, {weak_type}>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32, {weak_type}>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// 64-bit types are valid whether or not this process enables them.
func.func @double(%x: tensor<4xf64>) -> tensor<f64> {
  %0 = "jaxpr.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<4xf64>) -> tensor<f64>
  return %0 : tensor<f64>
}

// -----

// The type of an argument is checked even if no op of the function uses the argument.
module attributes {jaxpr.version = "0.1"} {
  // expected-error@+1 {{'func.func' op argument #1: memref<3xf32> is not a type of the jaxpr dialect; the type of an array is one like tensor<4xf32>}}
  func.func @argument(%x: tensor<f32>, %y: memref<3xf32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
}

// -----

// expected-error@+1 {{'func.func' op argument #0: tensor<f32, {weak}>: expected an encoding with keys among 'weak_type', 'shape', 'constraints', 'mesh', 'spec', 'manual', 'memory_space', 'layout', got 'weak'}}
func.func @misspelt_encoding(%x: tensor<f32, {weak}>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%y) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op argument #0: tensor<f32, {memory_space = 3 : i64}>: expected a MemorySpace as memory_space, got 3}}
func.func @memory_space(%x: tensor<f32, {memory_space = 3}>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%y) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op argument #0: tensor<?xf32, {shape = "b, c"}>: the shape "b, c" does not match the tensor}}
func.func @rank_of_the_shape(%x: tensor<?xf32, {shape = "b, c"}>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%y) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op argument #0: tensor<?x4xf32, {shape = "b, 5"}>: the shape "b, 5" does not match the tensor}}
func.func @size_in_the_shape(%x: tensor<?x4xf32, {shape = "b, 5"}>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%y) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op argument #0: tensor<?xf32, {shape = "b +* c"}> cannot be read: ValueError: syntax error in symbolic shape 'b +* c'}}
func.func @syntax_of_the_shape(%x: tensor<?xf32, {shape = "b +* c"}>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%y) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op argument #0: tensor<?xf32, {shape = 3 : i64}>: expected strings as shape and constraints}}
func.func @no_text_of_a_shape(%x: tensor<?xf32, {shape = 3 : i64}>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%y) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op argument #0: tensor<4xf32, {mesh = 3 : i64, spec = 4 : i64}> cannot be read: AttributeError}}
func.func @no_mesh(%x: tensor<4xf32, {mesh = 3, spec = 4}>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%y) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op argument #0: tensor<!jaxpr.key<"fry","phx">> cannot be read: ValueError}}
func.func @two_generators(%x: tensor<!jaxpr.key<"fry","phx">>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%y) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
