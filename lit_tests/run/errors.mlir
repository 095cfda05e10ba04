// RUN: not jaxmlir-run %s 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not jaxmlir-run %s --args '[1,2], 3, 4' 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not jaxmlir-run %s --args '[1,2,3]' 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not jaxmlir-run %s --args '[[1],2], 3' 2>&1 | FileCheck %s --check-prefix=RAGGED
// RUN: not jaxmlir-run %s --args 'f32[2], 3' 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not jaxmlir-run %s --args "[1,2], 3.5" 2>&1 | FileCheck %s --check-prefix=FRACTION
// RUN: not jaxmlir-run %s --args "[1,2], 99999999999999999999" 2>&1 | FileCheck %s --check-prefix=WIDE
// RUN: not jaxmlir-run %s --args "[1,None], 3" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not jaxmlir-run %s --args "['1','2'], 3" 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not jaxmlir-run %s --entry=nope 2>&1 | FileCheck %s --check-prefix=ENTRY
// RUN: not jaxmlir-run %s --random-args=99999999999999999999 2>&1 | FileCheck %s --check-prefix=SEED
// RUN: echo > %t.npy && not jaxmlir-run %s --input=%t.npy 2>&1 | FileCheck %s --check-prefix=DAMAGED
// RUN: not jaxmlir-run %s --entri=f 2>&1 | FileCheck %s --check-prefix=FLAG
// RUN: env -u JAX_PLATFORMS not jaxmlir-run %s --platform=abacus 2>&1 | FileCheck %s --check-prefix=PLATFORM
// RUN: not jaxmlir-run %s --entry=token --random-args 2>&1 | FileCheck %s --check-prefix=TOKEN
// RUN: jaxmlir-run --help | FileCheck %s --check-prefix=HELP
// RUN: jaxmlir-run --version | FileCheck %s --check-prefix=VERSION

// NONE: jaxmlir-run: @f takes 2 arguments (f32[2], i32[]), 0 arguments were given; --random-args uses random values for the rest
// MANY: jaxmlir-run: @f takes 2 arguments (f32[2], i32[]), 3 arguments were given
// SHAPE: jaxmlir-run: argument 0 of @f is f32[2], but got an array of shape [3]
// RAGGED: jaxmlir-run: argument 0 of @f is f32[2], but got {{.*}}1], 2] (
// TYPE: jaxmlir-run: --args expects literals, got ShapeDtypeStruct
// FRACTION: jaxmlir-run: argument 1 of @f is i32[], but got 3.5 (the value does not fit int32)
// WIDE: jaxmlir-run: argument 1 of @f is i32[], but got 99999999999999999999 (
// NOTHING: jaxmlir-run: argument 0 of @f is f32[2], but got [1, None] (expected numbers only)
// TEXT: jaxmlir-run: argument 0 of @f is f32[2], but got ['1', '2'] (expected numbers only)
// ENTRY: jaxmlir-run: the module has no function 'nope'; it has f
// SEED: jaxmlir-run: --random-args expects an integer up to 9223372036854775807, got '99999999999999999999'
// DAMAGED: jaxmlir-run: '{{.*}}.npy' is neither a .npy nor a .npz file of arrays:
// PLATFORM: jaxmlir-run: --platform: cannot run on 'abacus': 
// FLAG: unknown command line argument '--entri'; did you mean '--entry'?
// TOKEN: jaxmlir-run: argument 0 of @token is Tok; only arrays can be given
// HELP: USAGE: jaxmlir-run
// HELP: --random-args[=<seed>]
// VERSION: jaxmlir-run: jaxmlir {{.*}}, jax {{[0-9.]+}}, jaxlib {{[0-9.]+}}
func.func public @f(%x: tensor<2xf32>, %n: tensor<i32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

func.func private @token(%t: !jaxpr.token) -> !jaxpr.token {
  return %t : !jaxpr.token
}
