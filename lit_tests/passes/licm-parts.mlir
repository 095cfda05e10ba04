// Parts of an array that a loop slices: on a CPU they leave the loop. On a TPU they stay, since each would have a cotangent that a kernel adds up; a part of an array that nothing else reads leaves.

// RUN: jaxmlir-opt --jaxpr-licm %s | FileCheck %s --check-prefix=CPU
// RUN: jaxmlir-opt --target=tpu --jaxpr-licm %s -o %t
// RUN: FileCheck %s --check-prefix=TPU < %t
// RUN: jaxmlir-run %s --args '[2.0, 3.0], [5.0, 7.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[2.0, 3.0], [5.0, 7.0]' | FileCheck %s --check-prefix=EXEC

// CPU-LABEL: func.func private @body
// CPU-NOT:     "jaxpr.slice"
// TPU-LABEL: func.func private @body(%{{.*}}: tensor<2xf32>, %{{.*}}: tensor<1xf32>, %{{.*}}: tensor<1xf32>)
// TPU:         "jaxpr.slice"
// TPU:         "jaxpr.slice"
// EXEC: result: f32[1] = [365.0]
func.func public @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<1xf32> {
  %0 = "jaxpr.slice"(%a) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<2xf32>) -> tensor<1xf32>
  %1 = "jaxpr.scan"(%a, %b, %0) {jaxpr = @body, length = 2 : i64, num_carry = 1 : i64, num_consts = 2 : i64} : (tensor<2xf32>, tensor<2xf32>, tensor<1xf32>) -> tensor<1xf32>
  return %1 : tensor<1xf32>
}
func.func private @body(%a: tensor<2xf32>, %b: tensor<2xf32>, %x: tensor<1xf32>) -> tensor<1xf32> {
  %0 = "jaxpr.slice"(%a) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<2xf32>) -> tensor<1xf32>
  %1 = "jaxpr.slice"(%a) {limit_indices = array<i64: 2>, start_indices = array<i64: 1>} : (tensor<2xf32>) -> tensor<1xf32>
  %2 = "jaxpr.slice"(%b) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<2xf32>) -> tensor<1xf32>
  %3 = "jaxpr.mul"(%0, %x) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %4 = "jaxpr.add"(%3, %1) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %5 = "jaxpr.mul"(%4, %2) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  return %5 : tensor<1xf32>
}
