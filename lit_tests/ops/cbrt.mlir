// cbrt: Real cube root, sign(x) |x| ** (1/3).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[3.0, -2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.cbrt"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.cbrt %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [1.4422{{[0-9]*}}, -1.2599{{[0-9]*}}]
func.func public @cbrt(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.cbrt"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
