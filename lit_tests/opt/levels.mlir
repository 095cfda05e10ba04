// -O1 stands for the pipeline of level 1, wherever a pass may stand; -O0 stands for no passes. A
// function that an earlier pass added stays, even if nothing refers to it.

// RUN: jaxmlir-opt -O0 %s | FileCheck %s --check-prefix=O0
// RUN: jaxmlir-opt -O1 %s | FileCheck %s --check-prefix=O1
// RUN: jaxmlir-opt --jaxpr-verify -O1 --disable-pass=jaxpr-inline,jaxpr-cse --dump-pass-pipeline %s 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: jaxmlir-opt --jaxpr-jvp -O1 %s | FileCheck %s --check-prefix=AFTER
// RUN: not jaxmlir-opt -O9 %s 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: not jaxmlir-opt -O1 --disable-pass=jaxpr-vmap %s 2>&1 | FileCheck %s --check-prefix=PASS

// O0: jaxpr.sin
// O1-NOT: jaxpr.sin
// PIPELINE: builtin.module(jaxpr-verify,
// PIPELINE-SAME: jaxpr-dce
// PIPELINE-NOT: jaxpr-inline
// PIPELINE-NOT: jaxpr-cse
// AFTER: func.func public @main(
// AFTER: func.func private @main.jvp(
// LEVEL: there is no optimization level 9; the levels are 0, 1
// PASS: 'jaxpr-vmap' is not a pass of an optimization level; those that can be left out are {{.*}}jaxpr-dce
func.func public @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}
