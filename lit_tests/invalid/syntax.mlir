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

// expected-error@+1 {{'jaxpr.sin' op: expected in the body of a func.func, got a module's}}
"jaxpr.sin"() : () -> ()
