// optimization_barrier: The operands; no optimization moves an op across it.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.optimization_barrier"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.optimization_barrier %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 2.0]
func.func public @optimization_barrier(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.optimization_barrier"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
