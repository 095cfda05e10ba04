// freeze: Ends a reference and returns its value.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.freeze"(%{{.*}}) {jaxpr.effects = [{InternalMutableArrayEffect = none}]} : (!jaxpr.ref<tensor<3xf32>>) -> tensor<3xf32>
// HLO: return
// EXEC: result[0]: f32[] = 1.0
// EXEC: result[1]: f32[3] = [20.0, 2.0, 23.0]
func.func public @freeze(%arg0: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) {
  %0 = "jaxpr.new_ref"(%arg0) {jaxpr.effects = [{InternalMutableArrayEffect = none}]} : (tensor<3xf32>) -> !jaxpr.ref<tensor<3xf32>>
  %1 = "jaxpr.slice"(%arg0) {limit_indices = array<i64: 2>, start_indices = array<i64: 1>} : (tensor<3xf32>) -> tensor<1xf32>
  %2 = "jaxpr.squeeze"(%1) {dimensions = array<i64: 0>} : (tensor<1xf32>) -> tensor<f32>
  %3 = "jaxpr.constant"() {value = dense<1.000000e+01> : tensor<f32>} : () -> tensor<f32>
  %4 = "jaxpr.mul"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %5 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32, {weak_type}>
  %6 = "jaxpr.swap"(%0, %4, %5) {jaxpr.effects = [{WriteEffect = 0 : i64}], tree = {pytree = [{node = ["jax._src.state.indexing:NDIndexer", [{pytree = ["*"]}, array<i64: 3>, []], ["*"]]}]}} : (!jaxpr.ref<tensor<3xf32>>, tensor<f32>, tensor<i32, {weak_type}>) -> tensor<f32>
  %7 = "jaxpr.get"(%0, %5) {jaxpr.effects = [{ReadEffect = 0 : i64}], tree = {pytree = [{node = ["jax._src.state.indexing:NDIndexer", [{pytree = ["*"]}, array<i64: 3>, []], ["*"]]}]}} : (!jaxpr.ref<tensor<3xf32>>, tensor<i32, {weak_type}>) -> tensor<f32>
  %8 = "jaxpr.constant"() {value = dense<2> : tensor<i32>} : () -> tensor<i32, {weak_type}>
  "jaxpr.addupdate"(%0, %7, %8) {jaxpr.effects = [{AccumEffect = 0 : i64}], tree = {pytree = [{node = ["jax._src.state.indexing:NDIndexer", [{pytree = ["*"]}, array<i64: 3>, []], ["*"]]}]}} : (!jaxpr.ref<tensor<3xf32>>, tensor<f32>, tensor<i32, {weak_type}>) -> ()
  %9 = "jaxpr.freeze"(%0) {jaxpr.effects = [{InternalMutableArrayEffect = none}]} : (!jaxpr.ref<tensor<3xf32>>) -> tensor<3xf32>
  return %6, %9 : tensor<f32>, tensor<3xf32>
}
