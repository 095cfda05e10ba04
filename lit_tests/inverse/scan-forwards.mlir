// A loop whose initial carry is known is run forwards: in an autoregressive map, each element
// follows from the carry so far, which the elements before it determine.
//
//   y[i] = x[i] exp(c[i])        c[i + 1] = c[i] + x[i]

// RUN: jaxmlir-opt --jaxpr-inverse=log-det=true %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[1.0, 2.7182817, 7.389056]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<3xf32>) -> (tensor<3xf32>, tensor<f32>) {
// CHECK:        %[[LOOP:.*]]:3 = "jaxpr.scan"(%{{.*}}, %[[Y]]) {jaxpr = @[[STEP:.*]], length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT:   %[[DET:.*]] = "jaxpr.reduce_sum"(%[[LOOP]]#2)
// CHECK-NEXT:   return %[[LOOP]]#1, %[[DET]]

// CHECK:      func.func private @[[STEP]](%[[C:.*]]: tensor<f32>, %[[YI:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
// CHECK:        %[[S:.*]] = "jaxpr.exp"(%[[C]])
// CHECK-NEXT:   %[[XI:.*]] = "jaxpr.div"(%[[YI]], %[[S]])
// CHECK:        "jaxpr.add"(%[[C]], %[[XI]])

// EXEC:      result[0]: f32[3] = [1.0, {{1.0|0.9999}}{{[0-9]*}}, {{1.0|0.9999}}{{[0-9]*}}]
// EXEC-NEXT: result[1]: f32[] = -3.0
func.func public @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %1:2 = "jaxpr.scan"(%0, %x) {jaxpr = @body, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>)
  return %1#1 : tensor<3xf32>
}
func.func private @body(%c: tensor<f32>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.exp"(%c) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%x, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add"(%c, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2, %1 : tensor<f32>, tensor<f32>
}
