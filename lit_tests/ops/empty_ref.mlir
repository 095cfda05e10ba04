// empty_ref: A new reference whose value is not defined.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.empty_ref"() {jaxpr.effects = [{InternalMutableArrayEffect = none}], ty = tensor<3xf32>} : () -> !jaxpr.ref<tensor<3xf32>>
// HLO: stablehlo.constant dense<0.000000e+00> : tensor<f32>
// HLO: stablehlo.broadcast_in_dim %{{.*}}, dims = [] : (tensor<f32>) -> tensor<3xf32>
// EXEC: result: f32[3] = [1.0, 2.0, 3.0]
func.func public @empty_ref(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.empty_ref"() {jaxpr.effects = [{InternalMutableArrayEffect = none}], ty = tensor<3xf32>} : () -> !jaxpr.ref<tensor<3xf32>>
  %1 = "jaxpr.swap"(%0, %arg0) {jaxpr.effects = [{WriteEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.ref<tensor<3xf32>>, tensor<3xf32>) -> tensor<3xf32>
  %2 = "jaxpr.get"(%0) {jaxpr.effects = [{ReadEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.ref<tensor<3xf32>>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
