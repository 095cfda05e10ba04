// polynomial: Polynomial in the first operand, a0 + x (a1 + x (a2 + ...)); operands (x, a0, a1,
// ...).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, 3.0], [1.0, 1.0], [10.0, 10.0], [100.0, 100.0]' | FileCheck %s --check-prefix=EXEC
// REQUIRES: jax-0.12

// CHECK: "jaxpr.polynomial"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [421.0, 931.0]
func.func public @polynomial(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>, %arg2: tensor<2xf32>, %arg3: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.polynomial"(%arg0, %arg1, %arg2, %arg3) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
