// call_exported: Calls a function that `jax.export` serialised.

// RUN: jaxmlir-opt --verify=none %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER

// It holds a Python object, which text cannot: such an op runs only in its own process.

// CHECK: "jaxpr.call_exported"(%{{.*}}) {exported = {handle = "h0"}} : (tensor<2xf32>) -> tensor<2xf32>
// OTHER: stands for a Python object of another process
func.func public @call_exported(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.call_exported"(%arg0) {exported = {handle = "h0"}} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
