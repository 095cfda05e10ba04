// RUN: jaxmlir-opt %s --jaxpr-verify --split-input-file --verify-diagnostics

// Text that is not MLIR, or breaks MLIR's own rules: the diagnostics are MLIR's.

func.func @malformed(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{expected ':' followed by operation type}}
  %0 = "jaxpr.sin"(%x) tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @undefined_value() -> tensor<4xf32> {
  // expected-error@+1 {{use of undeclared SSA value name}}
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @returned(%x: tensor<4xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{type of return operand 0 ('tensor<4xf32>') doesn't match function result type ('tensor<3xf32>') in function @returned}}
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{'jaxpr.sin' op: expected in the body of a func.func, got the body of a module}}
"jaxpr.sin"() : () -> ()

// -----

// This error is jaxmlir's: MLIR's bindings cannot read such an attribute, and may end the process.
func.func @an_array_that_python_cannot_read(%x: tensor<4xf32>) -> tensor<f32> {
  // expected-error@+1 {{expected i1, i8, i16, i32, i64, f32 or f64 as the element type of an array attribute}}
  %0 = "jaxpr.reduce_sum"(%x) {axes = {list = array<f16: 0.0>}} : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

!index = i64
func.func @others(%x: tensor<4xf32>) -> tensor<f32> {
  // This is not an array<f16: 0.0>, and neither is the string "array<f16: 0.0>".
  %0 = "jaxpr.reduce_sum"(%x) {axes = array<!index: 0>, jaxpr.note = "array<f16: 0.0>"} : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The bindings read neither of these by themselves: the first ends the process.
func.func @locations(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.sin' op attribute 'accuracy': expected enum AccuracyMode or record Tolerance?, got loc(unknown)}}
  %0 = "jaxpr.sin"(%x) {accuracy = loc(unknown), jaxpr.note = {at = loc("a.py":1:2)}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @wide_float() -> tensor<2xf80> {
  // expected-error@+1 {{'jaxpr.constant' op: f80 is not the element type of a dtype of JAX}}
  %0 = "jaxpr.constant"() {value = dense<1.0> : tensor<2xf80>} : () -> tensor<2xf80>
  return %0 : tensor<2xf80>
}
