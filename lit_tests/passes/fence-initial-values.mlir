// On a TPU, arrays of equal numbers with which loops start are behind a barrier; numbers, other arrays, and loops in loops stay.

// RUN: jaxmlir-opt --target=tpu --jaxpr-fence-initial-values %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-fence-initial-values %t | diff %t -
// RUN: jaxmlir-opt --jaxpr-fence-initial-values %s | FileCheck %s --check-prefix=CPU
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --target=tpu --jaxpr-fence-initial-values --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: remark: [jaxpr-fence-initial-values] starts with 1 array behind a barrier
// REMARK-NOT: remark
// CHECK-LABEL: func.func public @main
// CHECK:         %[[ZEROS:.*]] = "jaxpr.broadcast_in_dim"
// CHECK-NEXT:    %[[START:.*]] = "jaxpr.optimization_barrier"(%[[ZEROS]])
// CHECK-NEXT:    "jaxpr.scan"(%{{.*}}, %[[START]], %arg0)
// CHECK:       func.func private @outer
// CHECK-NOT:     "jaxpr.optimization_barrier"
// CPU-NOT:     "jaxpr.optimization_barrier"
// EXEC: result[1]: f32[2] = [6.0, 12.0]
func.func public @main(%x: tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %zeros = "jaxpr.broadcast_in_dim"(%zero) {broadcast_dimensions = [], shape = array<i64: 2>} : (tensor<f32>) -> tensor<2xf32>
  %0:3 = "jaxpr.scan"(%zero, %zeros, %x) {jaxpr = @outer, length = 2 : i64, num_carry = 3 : i64, num_consts = 0 : i64} : (tensor<f32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<2xf32>)
  return %0#0, %0#1, %0#2 : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}
func.func private @outer(%n: tensor<f32>, %h: tensor<2xf32>, %x: tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %zeros = "jaxpr.broadcast_in_dim"(%zero) {broadcast_dimensions = [], shape = array<i64: 2>} : (tensor<f32>) -> tensor<2xf32>
  %0 = "jaxpr.scan"(%x, %zeros) {jaxpr = @inner, length = 3 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.add"(%h, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %n, %1, %x : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}
func.func private @inner(%x: tensor<2xf32>, %h: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.add"(%h, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
