// debug_callback: Calls a Python function for its side effects only.

// RUN: jaxmlir-opt --verify=none %s | FileCheck %s
// RUN: not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER

// It holds a Python object, which text cannot: such an op runs only in its own process.

// CHECK: "jaxpr.debug_callback"(%{{.*}}) {callback = {handle = "h0"}, effect = {DebugEffect = none}, jaxpr.effects = [{DebugEffect = none}]} : (tensor<2xf32>) -> ()
// OTHER: stands for a Python object of another process
func.func public @debug_callback(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  "jaxpr.debug_callback"(%arg0) {callback = {handle = "h0"}, effect = {DebugEffect = none}, jaxpr.effects = [{DebugEffect = none}]} : (tensor<2xf32>) -> ()
  %0 = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.add"(%arg0, %0) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
