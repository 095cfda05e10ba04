// io_callback: Calls a Python function for its side effects too, in program order if `ordered`.

// RUN: jaxmlir-opt --verify=none %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER

// It holds a Python object, which text cannot: such an op runs only in its own process.

// CHECK: "jaxpr.io_callback"(%{{.*}}) {callback = {handle = "h0"}, jaxpr.effects = [{OrderedIOEffect = none}], ordered = true, result_avals = [tensor<2xf32>]} : (tensor<2xf32>) -> tensor<2xf32>
// OTHER: stands for a Python object of another process
func.func public @io_callback(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.io_callback"(%arg0) {callback = {handle = "h0"}, jaxpr.effects = [{OrderedIOEffect = none}], ordered = true, result_avals = [tensor<2xf32>]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
