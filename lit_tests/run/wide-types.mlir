// 64-bit types are taken from the module: users need not set jax_enable_x64 to differentiate, lower
// or run it.

// RUN: jaxmlir-run %s --args '[0.5, 1.0000000009313226, 0.25]' | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-grad=value=true %s | jaxmlir-run --entry=f.grad --args '[0.5, 1.0000000009313226, 0.25]' | FileCheck %s --check-prefix=GRAD
// RUN: jaxmlir-opt --jaxpr-grad --canonicalize %s | FileCheck %s --check-prefix=TEXT
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo %s | jaxmlir-run --args '[0.5, 1.0000000009313226, 0.25]' | FileCheck %s

// CHECK: result: f64[] = 3.750000005355105
// GRAD: result[0]: f64[] = 3.750000005355105
// GRAD: result[1]: f64[3] = [3.0000000027939677, 5.75000000372529, 1.0000000009313226]
// TEXT: func.func private @f.grad
// TEXT-NOT: f32
func.func @f(%x: tensor<3xf64>) -> tensor<f64> {
  %0 = "jaxpr.reduce_max"(%x) {axes = array<i64: 0>} : (tensor<3xf64>) -> tensor<f64>
  %1 = "jaxpr.cumsum"(%x) {axis = 0 : i64, reverse = false} : (tensor<3xf64>) -> tensor<3xf64>
  %2 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 0>} : (tensor<3xf64>) -> tensor<f64>
  %3 = "jaxpr.mul"(%0, %2) : (tensor<f64>, tensor<f64>) -> tensor<f64>
  return %3 : tensor<f64>
}
