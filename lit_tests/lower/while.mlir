// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s
// RUN: jaxmlir-run %s --args '48, 36' | FileCheck %s --check-prefix=EXEC

// Euclid's algorithm: condition and body become regions.

// CHECK-LABEL: func.func public @gcd
// CHECK: stablehlo.while
// CHECK: cond {
// CHECK: stablehlo.compare NE
// CHECK: } do {
// CHECK: stablehlo.remainder
// CHECK: stablehlo.return
// EXEC: result: i32[] = 12
func.func public @gcd(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %0:2 = "jaxpr.while"(%a, %b) {cond_jaxpr = @unfinished, body_jaxpr = @step} : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
  return %0#0 : tensor<i32>
}
func.func private @unfinished(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i1> {
  %zero = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0 = "jaxpr.ne"(%b, %zero) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @step(%a: tensor<i32>, %b: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %0 = "jaxpr.rem"(%a, %b) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %b, %0 : tensor<i32>, tensor<i32>
}
