// pure_callback: Calls a Python function that has no side effects.

// RUN: jaxmlir-opt --verify=none %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER

// It holds a Python object, which text cannot: such an op runs only in its own process.

// CHECK: "jaxpr.pure_callback"(%{{.*}}) {callback = {handle = "h0"}, result_avals = [tensor<2xf32>]} : (tensor<2xf32>) -> tensor<2xf32>
// OTHER: stands for a Python object of another process
func.func public @pure_callback(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.pure_callback"(%arg0) {callback = {handle = "h0"}, result_avals = [tensor<2xf32>]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
