// RUN: jaxmlir-opt %s --jaxpr-verify --split-input-file --verify-diagnostics

// Checks of the op table: numbers of operands and results, and attributes.

func.func @operand_count(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.add' op: expected 2 operands, got 1}}
  %0 = "jaxpr.add"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @result_count(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.sin' op: expected 1 result, got 2}}
  %0:2 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0 : tensor<4xf32>
}

// -----

func.func @missing_attribute(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.cumsum' op requires attribute 'axis': expected dimension, got attributes 'reverse'; such as 0 : i64}}
  %0 = "jaxpr.cumsum"(%x) {reverse = true} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @unknown_attribute(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.cumsum' op: expected one of 'axis', 'reverse', got attribute 'revers'; did you mean 'reverse'?}}
  %0 = "jaxpr.cumsum"(%x) {axis = 0 : i64, revers = true} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @wrong_kind_of_attribute(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.cumsum' op attribute 'reverse': expected bool, got 1 : i64; such as true}}
  %0 = "jaxpr.cumsum"(%x) {axis = 0 : i64, reverse = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @no_dtype(%x: tensor<4xf32>) -> tensor<4xi32> {
  // expected-error@+1 {{'jaxpr.convert_element_type' op attribute 'new_dtype': expected dtype, got "i32"; such as f32}}
  %0 = "jaxpr.convert_element_type"(%x) {new_dtype = "i32"} : (tensor<4xf32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @one_dimension(%x: tensor<4xf32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.reduce_sum' op attribute 'axes': expected dimensions, got 0 : i64; such as array<i64: 0, 1>}}
  %0 = "jaxpr.reduce_sum"(%x) {axes = 0 : i64} : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A field that JAX's class does not have is an error, and is not dropped silently.
func.func @misspelt_field(%x: tensor<4xf32>, %i: tensor<1xi32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.gather' op: a GatherDimensionNumbers of this JAX has fields 'offset_dims', 'collapsed_slice_dims', 'start_index_map', 'operand_batching_dims', 'start_indices_batching_dims', got 'batching_dims'}}
  %0 = "jaxpr.gather"(%x, %i) {dimension_numbers = {GatherDimensionNumbers = {batching_dims = array<i64>, collapsed_slice_dims = array<i64: 0>, offset_dims = [], start_index_map = array<i64: 0>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<1xi32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @missing_field(%x: tensor<4xf32>, %i: tensor<1xi32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.gather' op: a GatherDimensionNumbers needs a field 'collapsed_slice_dims', got offset_dims, start_index_map}}
  %0 = "jaxpr.gather"(%x, %i) {dimension_numbers = {GatherDimensionNumbers = {offset_dims = [], start_index_map = array<i64: 0>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<1xi32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @region(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{'jaxpr.sin' op: expected no regions, got 1; functions are referred to by symbol}}
  %1 = "jaxpr.sin"(%0) ({}) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Every wrong op is reported, not only the first one.
func.func @two_errors(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.add' op: expected 2 operands, got 1}}
  %0 = "jaxpr.add"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{'jaxpr.mul' op: expected 2 operands, got 3}}
  %1 = "jaxpr.mul"(%x, %x, %0) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// expected-error@+1 {{'func.func' op attribute 'jaxpr.in_tree': [array<i1: true>, {dict = []}] is not the encoding of a pytree: array<i1: true> is not a node}}
func.func @no_tree(%x: tensor<4xf32>) -> tensor<4xf32> attributes {jaxpr.in_tree = [array<i1: true>, {dict = []}]} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'func.func' op attribute 'jaxpr.in_tree': expected a leaf for each of 1 argument, got 2}}
func.func @tree(%x: tensor<4xf32>) -> tensor<4xf32> attributes {jaxpr.in_tree = [["*", "*"], {dict = []}]} {
  return %x : tensor<4xf32>
}

// -----

func.func public @effects(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.debug_print' op attribute 'jaxpr.effects': expected it to list {OrderedDebugEffect = none} (by JAX's abstract evaluation of debug_print); an op without its effects may be dropped or reordered}}
  "jaxpr.debug_print"(%x) {fmt = "{}", ordered = true, in_tree = [["*"], {dict = []}]} : (tensor<f32>) -> ()
  return %x : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op @declaration: expected a body of one block, got a declaration}}
func.func private @declaration(tensor<f32>) -> tensor<f32>

// -----

// expected-error@+1 {{'func.func' op @blocks: expected a body of one block, got 2 blocks}}
func.func @blocks(%x: tensor<f32>) -> tensor<f32> {
  cf.br ^bb1(%x : tensor<f32>)
^bb1(%y: tensor<f32>):
  return %y : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op @no_return: expected a 'func.return' at the end, got 'jaxpr.sin'}}
func.func @no_return(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
}

// -----

// JAX's lowering takes a scatter without a function for a scatter that overwrites.
func.func @scatter_without_function(%x: tensor<3xf32>, %i: tensor<1xi32>, %u: tensor<f32>) -> tensor<3xf32> {
  // expected-error@+1 {{'jaxpr.scatter_add' op requires attribute 'update_jaxpr': expected function, got attributes 'dimension_numbers', 'mode'}}
  %0 = "jaxpr.scatter_add"(%x, %i, %u) {dimension_numbers = {ScatterDimensionNumbers = {inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, update_window_dims = []}}, mode = {GatherScatterMode = "CLIP"}} : (tensor<3xf32>, tensor<1xi32>, tensor<f32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// expected-error@+1 {{'func.func' op attribute 'jaxpr.in_tree': "leaf" is not the encoding of a pytree: "leaf" is not a node}}
func.func @no_leaf(%x: tensor<4xf32>) -> tensor<4xf32> attributes {jaxpr.in_tree = "leaf"} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'func.func' op attribute 'jaxpr.in_tree': expected a tuple of arguments and a dict of keyword arguments, got ["*"]}}
func.func @no_keywords(%x: tensor<4xf32>) -> tensor<4xf32> attributes {jaxpr.in_tree = ["*"]} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'builtin.module' op attribute 'jaxpr.version': it has version 0.2 of the jaxpr dialect; this jaxmlir knows versions up to 0.1: install a newer jaxmlir}}
module attributes {jaxpr.version = "0.2"} {
}

// -----

// expected-error@+1 {{'builtin.module' op attribute 'jaxpr.version': it has the malformed dialect version '3 : i64'}}
module attributes {jaxpr.version = 3 : i64} {
}

// -----

// XLA's bindings end the process for an unknown kind of FFT.
func.func @fft_of_no_kind(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  // expected-error@+1 {{'jaxpr.fft' op attribute 'fft_type': expected enum FftType, got f32; such as {FftType = "NAME"}}}
  %0 = "jaxpr.fft"(%x) {fft_lengths = array<i64: 4>, fft_type = f32} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}

// -----

func.func @seed_without_implementation(%x: tensor<i32>) -> tensor<!jaxpr.key<"fry">> {
  // expected-error@+1 {{'jaxpr.random_seed' op attribute 'impl': expected record PRNGImpl, got "fry"}}
  %0 = "jaxpr.random_seed"(%x) {impl = "fry"} : (tensor<i32>) -> tensor<!jaxpr.key<"fry">>
  return %0 : tensor<!jaxpr.key<"fry">>
}

// -----

func.func @dimensions_that_cannot_be_read(%x: tensor<2x1xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{'jaxpr.squeeze' op: {a = 1 : i64}: this process knows no parameter type "a"}}
  %0 = "jaxpr.squeeze"(%x) {dimensions = {a = 1 : i64}} : (tensor<2x1xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @dimensions_of_no_kind(%x: tensor<2x1xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{'jaxpr.squeeze' op: expected attributes that fit its operands and functions, got TypeError}}
  %0 = "jaxpr.squeeze"(%x) {dimensions = {dict = []}} : (tensor<2x1xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @dimension_of_no_kind(%x: tensor<2xf32>) -> tensor<i32> {
  // expected-error@+1 {{'jaxpr.dimension_size' op attribute 'dimension': expected int, got {dict = []}}}
  %0 = "jaxpr.dimension_size"(%x) {dimension = {dict = []}} : (tensor<2xf32>) -> tensor<i32>
  return %0 : tensor<i32>
}

// -----

func.func @sharding_of_no_kind(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{'jaxpr.sharding_constraint' op attribute 'sharding': expected sharding, got "x"}}
  %0 = "jaxpr.sharding_constraint"(%x) {context_mesh = {AbstractMesh = {axis_sizes = [], axis_names = [], axis_types = none}}, layout = none, sharding = "x", unconstrained_dims = {set = []}} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @shardings_of_no_kind(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{'jaxpr.jit' op attribute 'in_shardings': expected sharding? at 0, got "x"}}
  %0 = "jaxpr.jit"(%x) {in_shardings = ["x"], jaxpr = @called} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @called(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----

func.func @dtype_of_no_kind(%x: tensor<2xf32>) -> tensor<2xi32> {
  // expected-error@+1 {{'jaxpr.convert_element_type' op result #0: expected float0[2] (by JAX's abstract evaluation of convert_element_type), got tensor<2xi32>}}
  %0 = "jaxpr.convert_element_type"(%x) {new_dtype = {dict = []}} : (tensor<2xf32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

func.func @rule_that_is_none(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.custom_jvp_call_jaxpr' op attribute 'jvp_jaxpr': expected function, got none}}
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @same, jvp_jaxpr = none} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @same(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
