// Loops with large steps are marked, so that XLA keeps them as loops of kernels.

// RUN: jaxmlir-opt --jaxpr-parallel-loops %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-parallel-loops %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-opt --jaxpr-parallel-loops %t | diff %t -
// RUN: jaxmlir-run %s --args '2.0, 3.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '2.0, 3.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-parallel-loops --remarks %s -o %t.again 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: parallel-loops.mlir:[[# @LINE + 10]]:8: remark: [jaxpr-parallel-loops] run on several threads: an iteration takes about {{[0-9]+}} us
// REMARK-NOT: remark

// CHECK-LABEL: func.func public @main
// CHECK:         "jaxpr.scan"({{.*}}) {jaxpr = @large, jaxpr.parallel, length = 3 : i64, num_carry = 1 : i64}
// CHECK:         "jaxpr.scan"({{.*}}) {jaxpr = @small, length = 3 : i64, num_carry = 1 : i64}
// EXEC: result[0]: f32[] = 2.0
// EXEC: result[1]: f32[] = 3.0
func.func public @main(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.broadcast_in_dim"(%x) {broadcast_dimensions = [], shape = array<i64: 1024, 512>} : (tensor<f32>) -> tensor<1024x512xf32>
  %1 = "jaxpr.scan"(%0) {jaxpr = @large, length = 3 : i64, num_carry = 1 : i64} : (tensor<1024x512xf32>) -> tensor<1024x512xf32>
  %2 = "jaxpr.slice"(%1) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 1>} : (tensor<1024x512xf32>) -> tensor<1x1xf32>
  %3 = "jaxpr.squeeze"(%2) {dimensions = array<i64: 0, 1>} : (tensor<1x1xf32>) -> tensor<f32>
  %4 = "jaxpr.scan"(%y) {jaxpr = @small, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>) -> tensor<f32>
  return %3, %4 : tensor<f32>, tensor<f32>
}

func.func private @large(%c: tensor<1024x512xf32>) -> tensor<1024x512xf32> {
  %0 = "jaxpr.sin"(%c) : (tensor<1024x512xf32>) -> tensor<1024x512xf32>
  %1 = "jaxpr.add"(%0, %c) : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<1024x512xf32>
  %2 = "jaxpr.sub"(%1, %0) : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<1024x512xf32>
  return %2 : tensor<1024x512xf32>
}

func.func private @small(%c: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%c) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%0, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.sub"(%1, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
