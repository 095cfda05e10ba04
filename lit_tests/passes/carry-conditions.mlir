// A loop carries the number that its condition computes from an array, instead of the array.

// RUN: jaxmlir-opt --target=tpu --jaxpr-carry-conditions %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-carry-conditions %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-opt --target=tpu --jaxpr-carry-conditions %t | diff %t -
// RUN: jaxmlir-run %s --args '[1.0, 0.5]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1.0, 0.5]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --target=tpu --jaxpr-carry-conditions --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: carry-conditions.mlir:[[# @LINE + 23]]:10: remark: [jaxpr-carry-conditions] carries 1 number that the condition reads, computed in the body, instead of 1 array
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[X:.*]]: tensor<2xf32>)
// CHECK:         %[[ZEROS:.*]] = "jaxpr.sub"(%[[X]], %[[X]])
// CHECK-NEXT:    %[[FAR:.*]] = "jaxpr.sub"(%[[X]], %[[ZEROS]])
// CHECK-NEXT:    %[[START:.*]] = "jaxpr.reduce_max"(%[[FAR]])
// CHECK-NEXT:    %[[LOOP:.*]]:2 = "jaxpr.while"(%[[X]], %[[START]]) {body_jaxpr = @body, cond_jaxpr = @cond}
// CHECK-NEXT:    return %[[LOOP]]#0

// CHECK-LABEL: func.func private @cond
// CHECK-SAME:    (%{{.*}}: tensor<2xf32>, %[[D:.*]]: tensor<f32>) -> tensor<i1>
// CHECK:         "jaxpr.gt"(%[[D]], %{{.*}})

// CHECK-LABEL: func.func private @body
// CHECK-SAME:    (%[[Y:.*]]: tensor<2xf32>, %{{.*}}: tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
// CHECK:         %[[HALF:.*]] = "jaxpr.mul"(%[[Y]], %{{.*}})
// CHECK-NEXT:    %[[STEP:.*]] = "jaxpr.sub"(%[[HALF]], %[[Y]])
// CHECK-NEXT:    %[[NEXT:.*]] = "jaxpr.reduce_max"(%[[STEP]])
// CHECK-NEXT:    return %[[HALF]], %[[NEXT]]

// EXEC: result: f32[2] = [0.5, 0.25]
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sub"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1:2 = "jaxpr.while"(%x, %0) {body_jaxpr = @body, cond_jaxpr = @cond} : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %1#0 : tensor<2xf32>
}

func.func private @cond(%x: tensor<2xf32>, %before: tensor<2xf32>) -> tensor<i1> {
  %0 = "jaxpr.sub"(%x, %before) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.reduce_max"(%0) {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %2 = "jaxpr.constant"() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %3 = "jaxpr.gt"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %3 : tensor<i1>
}

func.func private @body(%x: tensor<2xf32>, %before: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%x, %0) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %1, %x : tensor<2xf32>, tensor<2xf32>
}
