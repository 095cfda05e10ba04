// cos: Cosine, cos(x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.0, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.cos"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.cosine %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [1.0, 0.54030{{[0-9]*}}]
func.func public @cos(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.cos"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
