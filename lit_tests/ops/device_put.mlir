// device_put: Moves each operand to a device, a sharding or a memory space.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.device_put"(%{{.*}}) {copy_semantics = [{ArrayCopySemantics = "REUSE_INPUT"}], devices = [{Device = "cpu:0"}], srcs = [none]} : (tensor<4xf32>) -> tensor<4xf32>
// HLO: stablehlo.add
// EXEC: result: f32[4] = [2.0, 3.0, 4.0, 5.0]
func.func public @device_put(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.device_put"(%arg0) {copy_semantics = [{ArrayCopySemantics = "REUSE_INPUT"}], devices = [{Device = "cpu:0"}], srcs = [none]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %2 = "jaxpr.add"(%0, %1) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
