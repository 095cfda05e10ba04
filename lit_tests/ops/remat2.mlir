// remat2: Calls a function whose intermediate values are recomputed in the backward pass, save
// those that the policy keeps.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.remat2"(%{{.*}}) {jaxpr = @lambda} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.sine %{{.*}} : tensor<2xf32>
// HLO: stablehlo.sine %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [0.74562{{[0-9]*}}, 0.7890{{[0-9]*}}]
func.func public @remat2(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.remat2"(%arg0) {jaxpr = @lambda} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @lambda(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sin"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.sin"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
