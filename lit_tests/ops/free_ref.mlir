// free_ref: Ends a reference without reading it.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.free_ref"(%{{.*}}) : (!jaxpr.ref<tensor<3xf32>>) -> ()
// HLO: stablehlo.slice %{{.*}} [0:1] : (tensor<3xf32>) -> tensor<1xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<f32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// EXEC: result: f32[3] = [2.0, 2.0, 3.0]
func.func public @free_ref(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.new_ref"(%arg0) {jaxpr.effects = [{InternalMutableArrayEffect = none}]} : (tensor<3xf32>) -> !jaxpr.ref<tensor<3xf32>>
  %1 = "jaxpr.slice"(%arg0) {limit_indices = array<i64: 1>, start_indices = array<i64: 0>} : (tensor<3xf32>) -> tensor<1xf32>
  %2 = "jaxpr.squeeze"(%1) {dimensions = array<i64: 0>} : (tensor<1xf32>) -> tensor<f32>
  %3 = "jaxpr.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %4 = "jaxpr.mul"(%3, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %5 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, {weak_type}>
  %6 = "jaxpr.swap"(%0, %4, %5) {jaxpr.effects = [{WriteEffect = 0 : i64}], tree = {pytree = [{node = ["jax._src.state.indexing:NDIndexer", [{pytree = ["*"]}, array<i64: 3>, []], ["*"]]}]}} : (!jaxpr.ref<tensor<3xf32>>, tensor<f32>, tensor<i32, {weak_type}>) -> tensor<f32>
  %7 = "jaxpr.get"(%0) {jaxpr.effects = [{ReadEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.ref<tensor<3xf32>>) -> tensor<3xf32>
  "jaxpr.free_ref"(%0) : (!jaxpr.ref<tensor<3xf32>>) -> ()
  return %7 : tensor<3xf32>
}
