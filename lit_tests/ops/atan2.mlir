// atan2: Angle of the point (y, x), the operands in this order; in [-pi, pi].

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, -1.0], [-1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.atan2"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.atan2 %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [2.356{{[0-9]*}}, -0.46364{{[0-9]*}}]
func.func public @atan2(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.atan2"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
