// RUN: jaxmlir-translate --stablehlo-to-jaxpr %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-raise-loops %t | FileCheck %s --check-prefix=SCAN
// RUN: jaxmlir-run %t --args '3.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-raise-loops --jaxpr-grad %t -o %t.grad
// RUN: jaxmlir-run %t.grad --entry=main.grad --args '3.0' | FileCheck %s --check-prefix=GRAD

// Regions become functions. A value that every iteration passes on unchanged is a loop-invariant constant.
// Constants from outside are written again inside, so that the trip count is known: x ** 4.

// CHECK:      func.func public @main(%[[X:.*]]: tensor<f32>) -> tensor<f32>
// CHECK:        "jaxpr.while"(%[[X]], {{.*}}) {body_jaxpr = @body, body_nconsts = 1 : i64, cond_jaxpr = @cond}
// CHECK:      func.func private @cond(
// CHECK:        "jaxpr.constant"() {value = dense<3>
// CHECK:        "jaxpr.lt"
// CHECK:      func.func private @body(

// SCAN: "jaxpr.scan"({{.*}}length = 3
// EXEC: result: f32[] = 81.0
// GRAD: f32[] = 108.0
func.func public @main(%x: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %same = %x, %y = %x) : tensor<i32>, tensor<f32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %power = stablehlo.multiply %y, %same : tensor<f32>
    stablehlo.return %next, %same, %power : tensor<i32>, tensor<f32>, tensor<f32>
  }
  return %0#2 : tensor<f32>
}
