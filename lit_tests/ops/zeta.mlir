// zeta: Hurwitz zeta function, the sum over k >= 0 of (k + q) ** -x; operands (x, q).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, 3.0], [0.5, 1.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.zeta"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.zeta %{{.*}}, %{{.*}} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [4.934{{[0-9]*}}, 0.414{{[0-9]*}}]
func.func public @zeta(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.zeta"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
