// A program with symbolic shapes runs at the sizes of its arguments.

// RUN: jaxmlir-run %s --args '[[1, 2, 3], [4, 5, 6]]' | FileCheck %s
// RUN: not jaxmlir-run %s --random-args 2>&1 | FileCheck %s --check-prefix=RANDOM
// RUN: not jaxmlir-run %s --args '[1, 2]' 2>&1 | FileCheck %s --check-prefix=RANK

// CHECK: result: f32[3] = [5.0, 7.0, 9.0]
// RANDOM: jaxmlir-run: @f takes 1 argument (f32[b,c]), but --random-args cannot know the sizes of symbolic shapes
// RANK: @f: argument 0 must be f32[b,c], got the shape [2]
func.func @f(%x: tensor<?x?xf32, {shape = "b, c"}>) -> tensor<?xf32, {shape = "c"}> {
  %0 = "jaxpr.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<?x?xf32, {shape = "b, c"}>) -> tensor<?xf32, {shape = "c"}>
  return %0 : tensor<?xf32, {shape = "c"}>
}
