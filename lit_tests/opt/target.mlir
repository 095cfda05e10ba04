// A program is optimized for the target that --target names, by default a CPU: passes for other
// compilers are skipped, and a remark says so if the pass was named, and not only its level.

// RUN: jaxmlir-opt -O2 %s | FileCheck %s --check-prefix=HOST
// RUN: jaxmlir-opt -O2 --target=cpu %s | FileCheck %s --check-prefix=HOST
// RUN: jaxmlir-opt -O2 --target=tpu:v5e %s | FileCheck %s --check-prefix=OTHER
// RUN: jaxmlir-opt -O2 --target=cuda:h100 --jaxpr-legalize-to-stablehlo %s | FileCheck %s --check-prefix=LOWERED
// RUN: jaxmlir-opt --pass-pipeline='builtin.module(jaxpr-expand-elementary)' --target=rocm --remarks %s 2>&1 | FileCheck %s --check-prefix=SKIPPED
// RUN: jaxmlir-opt -O2 --target=rocm --remarks %s 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: jaxmlir-opt -O2 --jaxpr-expand-elementary --target=rocm --remarks %s 2>&1 | FileCheck %s --check-prefix=SKIPPED
// RUN: not jaxmlir-opt -O2 --target=tpu:v5f %s 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not jaxmlir-opt -O2 --target=cud %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not jaxmlir-opt -O2 --target=gpu %s 2>&1 | FileCheck %s --check-prefix=GPU

// HOST-NOT: jaxpr.tan"
// HOST: f64
// HOST-NOT: jaxpr.tan"
// HOST: func.func private @tan_jvp
// OTHER-NOT: f64
// OTHER: jaxpr.tan
// LOWERED-NOT: f64
// LOWERED: stablehlo.tan
// SKIPPED: remark: [jaxpr-expand-elementary] skipped: the pass is for cpu, the target is rocm
// LEVEL-NOT: skipped
// KIND: there is no target 'tpu:v5f'; did you mean 'tpu:v5{{.}}'? known are tpu:v5e,
// UNKNOWN: there is no target 'cud'; did you mean 'cuda'? known are cpu, cuda, rocm, tpu
// GPU: 'gpu' stands for 'cuda' or 'rocm': name one

func.func public @main(%x: tensor<65536xf32>) -> tensor<65536xf32> {
  %0 = "jaxpr.tan"(%x) : (tensor<65536xf32>) -> tensor<65536xf32>
  return %0 : tensor<65536xf32>
}
