// regularized_incomplete_beta: Regularised incomplete beta function I_x(a, b); operands (a, b, x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, 3.0], [0.5, 1.5], [0.25, 0.75]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.regularized_incomplete_beta"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.compare EQ, %{{.*}}, %{{.*}}, FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// HLO: stablehlo.compare EQ, %{{.*}}, %{{.*}}, FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
// HLO: stablehlo.or %{{.*}}, %{{.*}} : tensor<2xi1>
// EXEC: result: f32[2] = [0.02572{{[0-9]*}}, 0.6025{{[0-9]*}}]
func.func public @regularized_incomplete_beta(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>, %arg2: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.regularized_incomplete_beta"(%arg0, %arg1, %arg2) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
