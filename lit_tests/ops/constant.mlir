// constant: A constant array: `value`, or the entry `name` in the side table of large constants.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.constant"() {value = dense<[1.000000e-01, -0.000000e+00, 3.000000e+00]> : tensor<3xf32>} : () -> tensor<3xf32>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<3xf32>
// EXEC: result: f32[3] = [1.1, 2.0, 6.0]
func.func public @constant(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.constant"() {value = dense<[1.000000e-01, -0.000000e+00, 3.000000e+00]> : tensor<3xf32>} : () -> tensor<3xf32>
  %1 = "jaxpr.add"(%arg0, %0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
