// log2: Logarithm to base two, log(x) / log(2).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[8.0, 10.0]' | FileCheck %s --check-prefix=EXEC
// REQUIRES: jax-0.11 || jax-0.12

// CHECK: "jaxpr.log2"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.log %{{.*}} : tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [3.0, 3.3219{{[0-9]*}}]
func.func public @log2(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.log2"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
