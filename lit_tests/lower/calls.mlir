// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// A call stays a call; a function with two call sites is lowered once. Calls need no name.

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: [[once:%.*]] = call @[[layer:.*]](%arg0) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: [[twice:%.*]] = call @[[layer]]([[once]]) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: return [[twice]]
// CHECK: func.func private @[[layer]]
// CHECK: stablehlo.multiply
// CHECK-NOT: stablehlo.multiply
// EXEC: result: f32[2] = [1.0, 16.0]
func.func public @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.jit"(%x) {jaxpr = @layer} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.jit"(%0) {jaxpr = @layer} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @layer(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
