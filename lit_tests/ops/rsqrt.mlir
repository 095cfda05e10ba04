// rsqrt: Reciprocal square root, x ** (-1/2).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[4.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.rsqrt"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.rsqrt %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [0.5, 0.70710{{[0-9]*}}]
func.func public @rsqrt(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.rsqrt"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
