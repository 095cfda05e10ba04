// stack: Joins operands of one shape along a new axis.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0], [3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.stack"(%{{.*}}, %{{.*}}) {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
// HLO: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 0 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
// EXEC: result: f32[2,2] = {{\[\[}}1.0, 2.0],
// EXEC-NEXT: [3.0, 4.0]]
func.func public @stack(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2x2xf32> {
  %0 = "jaxpr.stack"(%arg0, %arg1) {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
