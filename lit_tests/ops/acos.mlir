// acos: Arc cosine, the y in [0, pi] with cos(y) = x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[-0.5, 0.25]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.acos"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.acos %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [2.094{{[0-9]*}}, 1.3181{{[0-9]*}}]
func.func public @acos(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.acos"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
