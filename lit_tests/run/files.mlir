// RUN: %python -c "import numpy as np; np.save(r'%t.npy', np.float32([0.1, -0.0])); np.savez(r'%t.npz', a=np.float32([1, 2]), b=np.int32(3))"
// RUN: jaxmlir-run %s --input %t.npy --input %t.npz | FileCheck %s
// RUN: jaxmlir-run %s --args '"%t.npy", [1, 2], 3' | FileCheck %s
// RUN: not jaxmlir-run %s --args '"%t.npy"' --args '[1, 2], 3' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: jaxmlir-run %s --input %t.npy --input %t.npz -o %t.out.npz
// RUN: jaxmlir-run %s --input %t.out.npz | FileCheck %s
// RUN: not jaxmlir-run %s --input %t.missing 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not jaxmlir-run %s --input %s 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not jaxmlir-run %s --input %t.npy --input %t.npz -o %t.out.npy 2>&1 | FileCheck %s --check-prefix=NPY

// Saved results can be used as inputs.

// CHECK:      result[0]: f32[2] = [0.1, -0.0]
// CHECK-NEXT: result[1]: f32[2] = [1.0, 2.0]
// CHECK-NEXT: result[2]: i32[] = 3
// TWICE: jaxmlir-run: --args may be given only once
// MISSING: jaxmlir-run: cannot open input file '{{.*}}.missing'
// KIND: files.mlir' is neither a .npy nor a .npz file of arrays
// NPY: jaxmlir-run: 3 results do not fit in '{{.*}}.out.npy'; save them as .npz
func.func public @f(%x: tensor<2xf32>, %y: tensor<2xf32>, %n: tensor<i32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<i32>) {
  return %x, %y, %n : tensor<2xf32>, tensor<2xf32>, tensor<i32>
}
