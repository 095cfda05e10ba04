// atan: Arc tangent, the y in (-pi/2, pi/2) with tan(y) = x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.atan"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.atan %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [0.46364{{[0-9]*}}, 1.3258{{[0-9]*}}]
func.func public @atan(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.atan"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
