// dce_sink: Uses the operand, so that it is not dead.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.dce_sink"(%{{.*}}) {jaxpr.effects = [{NoDCEEffect = none}]} : (tensor<2xf32>) -> ()
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [2.0, 3.0]
func.func public @dce_sink(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  "jaxpr.dce_sink"(%arg0) {jaxpr.effects = [{NoDCEEffect = none}]} : (tensor<2xf32>) -> ()
  %0 = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.add"(%arg0, %0) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
