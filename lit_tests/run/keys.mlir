// A PRNG key is a seed or its raw data.
// RUN: jaxmlir-run %s --args 3 | FileCheck %s
// RUN: jaxmlir-run %s --args '[0, 3]' | FileCheck %s
// RUN: jaxmlir-run %s --args 3 -o %t.npy && jaxmlir-run %s --input %t.npy | FileCheck %s
// RUN: jaxmlir-run %s --random-args=3 | FileCheck %s
// RUN: not jaxmlir-run %s --args '[1,2,3]' 2>&1 | FileCheck %s --check-prefix=DATA
// RUN: not jaxmlir-run %s --args '[[1,2]]' 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not jaxmlir-run %s --args 1.5 2>&1 | FileCheck %s --check-prefix=FRACTION
// RUN: not jaxmlir-run %s --args 99999999999999999999 2>&1 | FileCheck %s --check-prefix=WIDE

// CHECK: result: key<fry>[] = [0, 3]
// DATA: jaxmlir-run: argument 0 of @f is key<fry>[], but got [1, 2, 3] (the data of a key has the shape [2])
// SHAPE: jaxmlir-run: argument 0 of @f is key<fry>[], but got the data of an array of keys of shape [1]
// FRACTION: jaxmlir-run: argument 0 of @f is key<fry>[], but got 1.5 (
// WIDE: jaxmlir-run: argument 0 of @f is key<fry>[], but got 99999999999999999999 (
func.func public @f(%key: tensor<!jaxpr.key<"fry">>) -> tensor<!jaxpr.key<"fry">> {
  return %key : tensor<!jaxpr.key<"fry">>
}
