// erfc: Complementary error function, 1 - erf(x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 1.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.erfc"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.erfc %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [0.479{{[0-9]*}}, 0.03389{{[0-9]*}}]
func.func public @erfc(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.erfc"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
