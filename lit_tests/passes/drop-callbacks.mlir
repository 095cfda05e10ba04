// Debug callbacks, prints and run-time checks are removed; an option keeps the prints.

// RUN: jaxmlir-opt --jaxpr-drop-callbacks %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-drop-callbacks=keep-print=true %s | FileCheck %s --check-prefix=KEEP
// RUN: jaxmlir-run %t --args '3.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --emit-artifact --effects=drop %s -o %t.artifact
// RUN: jaxmlir-opt %t.artifact | FileCheck %s
// RUN: not jaxmlir-opt --emit-artifact --effects=print %s -o %t.artifact 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: --effects expects drop|keep-print|error, got 'print'

// CHECK-LABEL: func.func public @main
// CHECK-NOT: jaxpr.effects
// CHECK-NOT: debug_print
// KEEP-LABEL: func.func public @main
// KEEP: "jaxpr.jit"(%arg0) {jaxpr = @inner, jaxpr.effects = [{DebugEffect = none}]}
func.func public @main(%x: tensor<f32>) -> tensor<f32> {
  // EXEC: result: f32[] = 6.0
  %0 = "jaxpr.jit"(%x) {jaxpr = @inner, jaxpr.effects = [{DebugEffect = none}]} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// KEEP: debug_print
func.func private @inner(%x: tensor<f32>) -> tensor<f32> {
  "jaxpr.debug_print"(%x) {fmt = "x = {}", in_tree = {pytree = [["*"], {dict = []}]}, jaxpr.effects = [{DebugEffect = none}]} : (tensor<f32>) -> ()
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
