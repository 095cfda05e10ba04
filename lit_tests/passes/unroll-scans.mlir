// Short loops do several iterations in one, on devices that wait for the kernels of each iteration.

// RUN: jaxmlir-opt --target=cuda --jaxpr-unroll-scans %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=cuda --jaxpr-unroll-scans %t | diff %t -
// RUN: jaxmlir-opt --target=cuda --jaxpr-unroll-scans=copies=3 %s | FileCheck %s --check-prefix=THREE
// RUN: jaxmlir-opt --target=cuda --jaxpr-unroll-scans=calls=1 %s | FileCheck %s --check-prefix=LEFT
// RUN: jaxmlir-opt --jaxpr-unroll-scans %s | FileCheck %s --check-prefix=LEFT
// RUN: jaxmlir-run %s --args '2.0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '2.0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --target=cuda --jaxpr-unroll-scans --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: unroll-scans.mlir:[[# @LINE + 15]]:10: remark: [jaxpr-unroll-scans] unrolled by a factor of 7: the body has 2 ops
// REMARK-NOT: remark

// This loop is unrolled completely; a loop with the user's own unroll factor stays, and a loop of loops waits for the inner loops.
// CHECK-LABEL: func.func public @main
// CHECK:         "jaxpr.scan"({{.*}}) {jaxpr = @step, length = 7 : i64, num_carry = 1 : i64, unroll = 7 : i64}
// CHECK:         "jaxpr.scan"({{.*}}) {jaxpr = @step, length = 7 : i64, num_carry = 1 : i64, unroll = 2 : i64}
// CHECK:         "jaxpr.scan"({{.*}}) {jaxpr = @outer, length = 2 : i64, num_carry = 1 : i64, num_consts = 1 : i64}
// THREE:         "jaxpr.scan"({{.*}}) {jaxpr = @step, length = 7 : i64, num_carry = 1 : i64, unroll = 3 : i64}
// LEFT-LABEL:  func.func public @main
// LEFT-NEXT:     "jaxpr.scan"({{.*}}) {jaxpr = @step, length = 7 : i64, num_carry = 1 : i64}
// EXEC: result[0]: f32[] = 30.0
// EXEC: result[1]: f32[] = 30.0
// EXEC: result[2]: f32[7] = [2.0, 3.0, 5.0, 8.0, 12.0, 17.0, 23.0]
func.func public @main(%x: tensor<f32>, %xs: tensor<7xf32>) -> (tensor<f32>, tensor<f32>, tensor<7xf32>) {
  %0:2 = "jaxpr.scan"(%x, %xs) {jaxpr = @step, length = 7 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<7xf32>) -> (tensor<f32>, tensor<7xf32>)
  %1:2 = "jaxpr.scan"(%x, %xs) {jaxpr = @step, length = 7 : i64, num_carry = 1 : i64, unroll = 2 : i64} : (tensor<f32>, tensor<7xf32>) -> (tensor<f32>, tensor<7xf32>)
  %2 = "jaxpr.scan"(%xs, %x) {jaxpr = @outer, length = 2 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
  return %0#0, %1#0, %0#1 : tensor<f32>, tensor<f32>, tensor<7xf32>
}

func.func private @step(%c: tensor<f32>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.add"(%c, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.sub"(%0, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

func.func private @outer(%xs: tensor<7xf32>, %c: tensor<f32>) -> tensor<f32> {
  %0:2 = "jaxpr.scan"(%c, %xs) {jaxpr = @step, length = 7 : i64, num_carry = 1 : i64, unroll = 2 : i64} : (tensor<f32>, tensor<7xf32>) -> (tensor<f32>, tensor<7xf32>)
  return %0#0 : tensor<f32>
}
