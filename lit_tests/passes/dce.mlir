// Dead code elimination removes ops that no result and no effect depends on, also in called functions.

// RUN: jaxmlir-opt --jaxpr-dce %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-dce %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '1.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '1.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-dce --remarks=dce %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The second carry of the loop reaches a result and depends on the first carry; the third is dead.
// @pair has two call sites, and each uses another result: @pair becomes two functions.
// CHECK:      func.func public @main(%[[X:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
// CHECK-NEXT:   %[[LOOP:.*]]:2 = "jaxpr.scan"(%[[X]], %[[X]]) {jaxpr = @body, length = 3 : i64, num_carry = 2 : i64}
// CHECK-NEXT:   %[[FIRST:.*]] = "jaxpr.jit"(%[[X]]) {jaxpr = @pair}
// CHECK-NEXT:   %[[SECOND:.*]] = "jaxpr.jit"(%[[X]]) {jaxpr = @pair_0}
// CHECK-NEXT:   return %[[LOOP]]#1, %[[FIRST]], %[[SECOND]]
// CHECK:      func.func private @body(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK-NEXT:   %[[A2:.*]] = "jaxpr.add"(%[[A]], %[[A]])
// CHECK-NEXT:   %[[B2:.*]] = "jaxpr.add"(%[[B]], %[[A]])
// CHECK-NEXT:   return %[[A2]], %[[B2]]
// CHECK:      func.func private @pair(%[[Y:.*]]: tensor<f32>) -> tensor<f32>
// CHECK-NEXT:   %[[NEG:.*]] = "jaxpr.neg"(%[[Y]])
// CHECK-NEXT:   return %[[NEG]]
// CHECK:      func.func private @entry
// CHECK-NOT:  @unused
// CHECK:      func.func private @pair_0(%[[Z:.*]]: tensor<f32>) -> tensor<f32>
// CHECK-NEXT:   %[[ABS:.*]] = "jaxpr.abs"(%[[Z]])
// CHECK-NEXT:   return %[[ABS]]

// EXEC:      result[0]: f32[] = 8.0
// EXEC-NEXT: result[1]: f32[] = -1.0
// EXEC-NEXT: result[2]: f32[] = 1.0

// REMARK-DAG: dce.mlir:[[SIN:[0-9]+]]:8: remark: [jaxpr-dce] removed 'jaxpr.sin': nothing uses its results
// REMARK-DAG: remark: [jaxpr-dce] 1 operand and 1 result of 'jaxpr.scan' dropped: nothing depends on them
func.func public @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.jit"(%0) {jaxpr = @unused} : (tensor<f32>) -> tensor<f32>
  %2:3 = "jaxpr.scan"(%x, %x, %0) {jaxpr = @body, length = 3 : i64, num_carry = 3 : i64} : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  %3:2 = "jaxpr.jit"(%x, %0) {jaxpr = @pair} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %4:2 = "jaxpr.jit"(%0, %x) {jaxpr = @pair} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %2#1, %3#0, %4#1 : tensor<f32>, tensor<f32>, tensor<f32>
}
func.func private @body(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.add"(%a, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%b, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.mul"(%c, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}
func.func private @pair(%y: tensor<f32>, %z: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.neg"(%y) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.abs"(%z) : (tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
func.func private @unused(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
// Nothing in the module refers to this function, so it is an entry point.
func.func private @entry(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
