// polygamma: Polygamma function of order m at x, the m-th derivative of digamma; operands (m, x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0], [0.5, 1.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.polygamma"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.polygamma %{{.*}}, %{{.*}} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [4.934{{[0-9]*}}, -0.828{{[0-9]*}}]
func.func public @polygamma(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.polygamma"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
