// A pass that fails writes a reproducer file, which fails in the same way.

// RUN: not jaxmlir-opt %s --jaxpr-dce --jaxpr-inverse --cse --mlir-pass-pipeline-crash-reproducer=%t 2> /dev/null
// RUN: FileCheck %s --check-prefix=WHOLE < %t
// RUN: not jaxmlir-opt %t --run-reproducer 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not jaxmlir-opt %s --jaxpr-dce --jaxpr-inverse --verify-each=0 --mlir-pass-pipeline-crash-reproducer=%t.local --mlir-pass-pipeline-local-reproducer 2> /dev/null
// RUN: FileCheck %s --check-prefix=LOCAL < %t.local
// RUN: not jaxmlir-opt %t.local --run-reproducer 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: jaxmlir-opt %s --jaxpr-dce --symbol-privatize=exclude=f,λ --mlir-generate-reproducer=%t.any -o /dev/null
// RUN: jaxmlir-opt %t.any --run-reproducer | FileCheck %s --check-prefix=DONE
// RUN: not jaxmlir-opt %s --run-reproducer 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not jaxmlir-opt %t --run-reproducer --cse 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not jaxmlir-opt %s --mlir-pass-pipeline-local-reproducer 2>&1 | FileCheck %s --check-prefix=WITH

// WHOLE:     "jaxpr.neg"
// WHOLE:     {-#
// WHOLE:     mlir_reproducer: {
// WHOLE:     pipeline: "builtin.module(jaxpr-dce,jaxpr-inverse,{{.*}}cse{{.*}})"
// WHOLE:     verify_each: true
// AGAIN:     reproducer.mlir{{.*}}error: 'jaxpr.floor' op cannot be inverted
// LOCAL-NOT: "jaxpr.neg"
// LOCAL:     pipeline: "builtin.module(jaxpr-inverse)"
// LOCAL:     verify_each: false
// DONE-NOT:  jaxpr.neg
// DONE:      jaxpr.floor
// NONE:      --run-reproducer: {{.*}}reproducer.mlir has no pipeline
// BOTH:      --run-reproducer runs the pipeline of its input, and no other passes
// WITH:      --mlir-pass-pipeline-local-reproducer requires --mlir-pass-pipeline-crash-reproducer
func.func public @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.floor"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "jaxpr.neg"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
