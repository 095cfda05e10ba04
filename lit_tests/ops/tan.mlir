// tan: Tangent, sin(x) / cos(x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.0, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.tan"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.tan %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [0.0, 1.5574{{[0-9]*}}]
func.func public @tan(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.tan"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
