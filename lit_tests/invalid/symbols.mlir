// RUN: jaxmlir-opt %s --jaxpr-verify --split-input-file --verify-diagnostics

// Functions that an op names have to exist, have to fit the op, and must not reach themselves by calls.

func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func @unknown_symbol(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.jit' op attribute 'jaxpr': expected the symbol of a func.func of this module, got @duoble; did you mean @double?}}
  %0 = "jaxpr.jit"(%x) {jaxpr = @duoble} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func @unknown_branch(%i: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.cond' op attribute 'branches': expected the symbol of a func.func of this module, got @triple}}
  %0 = "jaxpr.cond"(%i, %x) {branches = [@double, @triple]} : (tensor<i32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @not_a_symbol(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.jit' op attribute 'jaxpr': expected function, got 3 : i64; such as @f}}
  %0 = "jaxpr.jit"(%x) {jaxpr = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @body(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

func.func @operand_type(%x: tensor<4xi32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.jit' op attribute 'jaxpr': expected a function that takes tensor<4xi32> for operand #0, got @body, which takes tensor<4xf32>}}
  %0 = "jaxpr.jit"(%x) {jaxpr = @body} : (tensor<4xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @condition(%i: tensor<i32>) -> tensor<i1> {
  %0 = "jaxpr.lt"(%i, %i) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @body(%i: tensor<i32>) -> tensor<2xi32> {
  %0 = "jaxpr.broadcast_in_dim"(%i) {broadcast_dimensions = [], shape = array<i64: 2>} : (tensor<i32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

func.func @loop(%i: tensor<i32>) -> tensor<i32> {
  // expected-error@+1 {{'jaxpr.while' op attribute 'body_jaxpr': expected a function that gives tensor<i32> for carried value #0, got @body, which gives tensor<2xi32>}}
  %0 = "jaxpr.while"(%i) {cond_jaxpr = @condition, body_jaxpr = @body} : (tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}

// -----

func.func private @step(%c: tensor<f32>, %x: tensor<i32>) -> tensor<f32> {
  return %c : tensor<f32>
}

func.func @loop(%c: tensor<f32>, %xs: tensor<5xf32>) -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.scan' op: expected operands that JAX's abstract evaluation accepts, got tensor<f32>, tensor<5xf32>: JaxprTypeError: scan jaxpr takes input sequence types int32[], called with sequence whose items have type float32[]}}
  %0 = "jaxpr.scan"(%c, %xs) {jaxpr = @step, length = 5 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<5xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func private @half(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

func.func @solve_0(%b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.custom_linear_solve' op attribute 'jaxprs.solve': expected the symbol of a function, got nothing}}
  %0 = "jaxpr.custom_linear_solve"(%b) {const_lengths = {_LinearSolveTuple = {matvec = 0 : i64, vecmat = 0 : i64, solve = 0 : i64, transpose_solve = 0 : i64}}, jaxprs = {_LinearSolveTuple = {matvec = @half}}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @solve_1(%b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.custom_linear_solve' op attribute 'jaxprs': expected a record of matvec, solve, got [@half, @half]}}
  %0 = "jaxpr.custom_linear_solve"(%b) {const_lengths = {_LinearSolveTuple = {matvec = 0 : i64, vecmat = 0 : i64, solve = 0 : i64, transpose_solve = 0 : i64}}, jaxprs = [@half, @half]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @solve_2(%b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.custom_linear_solve' op attribute 'const_lengths.matvec': expected a number of constants, got -1 : i64}}
  %0 = "jaxpr.custom_linear_solve"(%b) {const_lengths = {_LinearSolveTuple = {matvec = -1 : i64, vecmat = 0 : i64, solve = 0 : i64, transpose_solve = 0 : i64}}, jaxprs = {_LinearSolveTuple = {matvec = @half, solve = @half}}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @even(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.jit"(%x) {jaxpr = @odd} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @odd(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.jit' op: expected a function that does not reach itself, got @even, which does: @even -> @odd -> @even; only a custom derivative rule may name the function it belongs to}}
  %0 = "jaxpr.jit"(%x) {jaxpr = @even} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
