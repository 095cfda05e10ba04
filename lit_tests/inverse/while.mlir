// The condition of the while loop depends only on known values: a first loop counts the steps, then a
// second loop inverts as many steps.
//
//   while i < n:  i, x <- i + 1, sinh(x)

// RUN: jaxmlir-opt --jaxpr-inverse=known=0 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '3.0, 2' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<f32>, %[[N:.*]]: tensor<i32>) -> tensor<f32> {
// CHECK:        %[[COUNT:.*]]:2 = "jaxpr.while"(%[[N]], %{{.*}}, %{{.*}}) {body_jaxpr = @body.count, cond_jaxpr = @cond.count, cond_nconsts = 1 : i64}
// CHECK-NEXT:   %[[X:.*]]:3 = "jaxpr.while"(%[[COUNT]]#0, %[[COUNT]]#1, %[[Y]]) {body_jaxpr = @body.backwards, cond_jaxpr = @body.steps_left}
// CHECK-NEXT:   return %[[X]]#2

// EXEC: result: f32[] = 1.35{{[0-9]*}}
func.func public @f(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %1:2 = "jaxpr.while"(%n, %0, %x) {cond_jaxpr = @cond, body_jaxpr = @body, cond_nconsts = 1 : i64} : (tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>)
  return %1#1 : tensor<f32>
}
func.func private @cond(%n: tensor<i32>, %i: tensor<i32>, %x: tensor<f32>) -> tensor<i1> {
  %0 = "jaxpr.lt"(%i, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @body(%i: tensor<i32>, %x: tensor<f32>) -> (tensor<i32>, tensor<f32>) {
  %0 = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %1 = "jaxpr.add"(%i, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %2 = "jaxpr.sinh"(%x) : (tensor<f32>) -> tensor<f32>
  return %1, %2 : tensor<i32>, tensor<f32>
}
