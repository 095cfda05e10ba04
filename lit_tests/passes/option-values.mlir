// The value of a pass's option has to be valid, and has to fit the function.

// RUN: not jaxmlir-opt %s --jaxpr-jvp=argnums=7 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not jaxmlir-opt %s --jaxpr-partial-eval=unknown=-1 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not jaxmlir-opt %s --jaxpr-transpose=linear=2 2>&1 | FileCheck %s --check-prefix=LINEAR
// RUN: not jaxmlir-opt %s --jaxpr-grad=argnums=1 2>&1 | FileCheck %s --check-prefix=INTEGER
// RUN: not jaxmlir-opt %s --jaxpr-vmap='axis-size=2 in-axes=2,-1' 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not jaxmlir-opt %s --jaxpr-vmap=axis-size=-7 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not jaxmlir-opt %s --jaxpr-checkpoint-while='checkpoints=2 func=h' 2>&1 | FileCheck %s --check-prefix=FUNCTION
// RUN: not jaxmlir-opt %s --target=abacus --jaxpr-materialize-shared 2>&1 | FileCheck %s --check-prefix=PLATFORM
// RUN: not jaxmlir-opt %s --jaxpr-matmul-precision=ops=dot 2>&1 | FileCheck %s --check-prefix=OP
// RUN: not jaxmlir-opt %s --jaxpr-matmul-precision=ops=sin 2>&1 | FileCheck %s --check-prefix=PRODUCT
// RUN: not jaxmlir-opt %s --jaxpr-matmul-precision=dtype=int8 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: not jaxmlir-opt %s --jaxpr-matmul-precision="exact='('" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not jaxmlir-opt %s --jaxpr-sink-reductions=min-bytes=-7 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not jaxmlir-opt %s --jaxpr-vmap='axis-size=2 out-axes=-1' 2>&1 | FileCheck %s --check-prefix=RESULT
// RUN: not jaxmlir-opt %s --jaxpr-inverse='argnums=0 known=0' 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: not jaxmlir-opt %s --jaxpr-inverse='argnums=0 log-det=true' 2>&1 | FileCheck %s --check-prefix=SQUARE
// RUN: not jaxmlir-opt %s --jaxpr-grad=func=g 2>&1 | FileCheck %s --check-prefix=SCALAR
// RUN: not jaxmlir-opt %s --jaxpr-grad=func=whole 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not jaxmlir-opt %s --jaxpr-licm=growth=-0.5 2>&1 | FileCheck %s --check-prefix=AMOUNT

// NUMBER: option-values.mlir:[[# @LINE + 18]]:1: error: @f has 2 arguments, but none of number 7, from 0
// UNKNOWN: error: @f has 2 arguments, but none of number -1
// LINEAR: error: @f has 2 arguments, but none of number 2
// INTEGER: option-values.mlir:[[# @LINE + 15]]:1: error: argument 1 of @f, a tensor<i32>, has no tangents
// AXIS: error: in-axes: expected -1 to 1 for value 0, which is f32[4] without the batch, got 2
// SIZE: error: axis-size: expected 0 to 2^63 - 1, got -7
// FUNCTION: error: the module has no function @h; it has @f, @g, @whole
// PLATFORM: there is no target 'abacus'; known are cpu, cuda, rocm, tpu
// OP: error: option 'ops': there is no op 'dot'
// PRODUCT: error: option 'ops': 'sin' has no preferred_element_type
// DTYPE: error: option 'dtype': expected floats narrower than float32, got 'int8'
// REGEX: error: option 'exact': '(' is not a regular expression
// COUNT: error: option 'min-bytes' of pass 'jaxpr-sink-reductions' expects int, at least 0, got '-7'
// RESULT: option-values.mlir:[[# @LINE + 5]]:1: error: result 0 of @f is batched, but out_axes has None for it
// GIVEN: option-values.mlir:[[# @LINE + 4]]:1: error: argument 0 of @f is both in argnums and in known
// SQUARE: option-values.mlir:[[# @LINE + 3]]:1: error: @f has no log-determinant: its Jacobian is not square
// SCALAR: option-values.mlir:[[# @LINE + 6]]:1: error: the gradient of @g: expected a scalar result, got tensor<4xf32>
// AMOUNT: error: option 'growth' of pass 'jaxpr-licm' expects float, at least 0, got '-0.5'
func.func @f(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<f32> {
  %0 = "jaxpr.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// WHOLE: option-values.mlir:[[# @LINE + 1]]:1: error: the gradient of @whole: expected a scalar result, got tensor<i32>, which has no tangents
func.func private @whole(%x: tensor<f32>) -> tensor<i32> {
  %0 = "jaxpr.convert_element_type"(%x) {new_dtype = i32} : (tensor<f32>) -> tensor<i32>
  return %0 : tensor<i32>
}
