// linear_map: Calls a function that is linear in its last operands and has its own transpose;
// operands (*residuals, *linear operands).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, 3.0], [10.0, 100.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.linear_map"(%{{.*}}, %{{.*}}) {call_jaxpr = @lambda, num_res = 1 : i64, transpose_jaxpr = @lambda} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply
// EXEC: result: f32[2] = [20.0, 300.0]
func.func public @linear_map(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.linear_map"(%arg0, %arg1) {call_jaxpr = @lambda, num_res = 1 : i64, transpose_jaxpr = @lambda} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
