// Inlining: a call is replaced by the body of its function, if the body is small or has one call site.

// RUN: jaxmlir-opt --jaxpr-inline=max-ops=1 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-inline='max-ops=0 single-use=false' %s | FileCheck %s --check-prefix=NONE
// RUN: jaxmlir-run %s --args '2.0' > %t.before
// RUN: jaxmlir-run %t --args '2.0' > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after
// RUN: jaxmlir-opt --jaxpr-inline=max-ops=1 --remarks=all %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// @small has one op; @once has one call site; @large has two ops and two call sites; @kept asks not
// to be inlined.
// CHECK:      func.func public @main(%[[X:.*]]: tensor<f32>)
// CHECK-NEXT:   %[[SMALL:.*]] = "jaxpr.neg"(%[[X]])
// CHECK-NEXT:   %[[ONCE:.*]] = "jaxpr.mul"(%[[SMALL]], %[[SMALL]])
// CHECK-NEXT:   %[[AGAIN:.*]] = "jaxpr.neg"(%[[ONCE]])
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.jit"(%[[AGAIN]]) {jaxpr = @large}
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.jit"(%[[A]]) {jaxpr = @large}
// CHECK-NEXT:   %[[C:.*]] = "jaxpr.jit"(%[[B]]) {jaxpr = @kept}
// CHECK-NEXT:   return %[[C]]
// CHECK-NOT:  @once
// CHECK-NOT:  @small

// NONE: jaxpr = @small
// NONE: jaxpr = @once

// EXEC: result: f32[] = -8.0

// REMARK: remark: [jaxpr-inline] inlined @small: it is small (1 ops)
// REMARK: inline.mlir:{{[0-9]+}}:8: remark: [jaxpr-inline] inlined @once: called here only
func.func public @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.jit"(%x) {jaxpr = @small} : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.jit"(%0) {jaxpr = @once} : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.jit"(%1) {jaxpr = @large} : (tensor<f32>) -> tensor<f32>
  %3 = "jaxpr.jit"(%2) {jaxpr = @large} : (tensor<f32>) -> tensor<f32>
  %4 = "jaxpr.jit"(%3) {jaxpr = @kept} : (tensor<f32>) -> tensor<f32>
  return %4 : tensor<f32>
}
func.func private @small(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.neg"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @once(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.jit"(%0) {jaxpr = @small} : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @large(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sub"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%0, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @kept(%x: tensor<f32>) -> tensor<f32> attributes {no_inline} {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
