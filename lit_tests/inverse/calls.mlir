// A called function is inverted once for each set of known arguments and results, and the program
// calls the inverse. Inside rematerialized code, the inverse is rematerialized too.

// RUN: jaxmlir-opt --jaxpr-inverse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '3.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<f32>) -> tensor<f32> {
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.remat2"(%[[Y]]) {jaxpr = @g.inverse}
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.jit"(%[[A]]) {jaxpr = @g.inverse, name = "g"}
// CHECK-NEXT:   return %[[B]]
// CHECK:      func.func private @g.inverse(%[[Z:.*]]: tensor<f32>) -> tensor<f32> {
// CHECK-NEXT:   %[[X:.*]] = "jaxpr.asinh"(%[[Z]])
// CHECK-NEXT:   return %[[X]]

// asinh(asinh(3))
// EXEC: result: f32[] = 1.35{{[0-9]*}}
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.jit"(%x) {jaxpr = @g, name = "g"} : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.remat2"(%0) {jaxpr = @g} : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @g(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sinh"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
