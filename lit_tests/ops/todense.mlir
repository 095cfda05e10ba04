// todense: The dense array of any sparse one, given by its buffers.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [[0, 0], [0, 2], [1, 2]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.todense"(%{{.*}}, %{{.*}}) {tree = {pytree = {node = ["jax.experimental.sparse.bcoo:BCOO", {dict = {{\[\[}}"shape", array<i64: 2, 3>], ["indices_sorted", false], ["unique_indices", false]]}, ["*", "*"]]}}} : (tensor<3xf32>, tensor<3x2xi32>) -> tensor<2x3xf32>
// HLO: stablehlo.slice %{{.*}} [0:3, 0:1] : (tensor<3x2xi32>) -> tensor<3x1xi32>
// HLO: stablehlo.slice %{{.*}} [0:3, 1:2] : (tensor<3x2xi32>) -> tensor<3x1xi32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
// EXEC: result: f32[2,3] = {{\[\[}}1.0, 0.0, 2.0],
// EXEC-NEXT: [0.0, 0.0, 3.0]]
func.func public @todense(%arg0: tensor<3xf32>, %arg1: tensor<3x2xi32>) -> tensor<2x3xf32> {
  %0 = "jaxpr.todense"(%arg0, %arg1) {tree = {pytree = {node = ["jax.experimental.sparse.bcoo:BCOO", {dict = [["shape", array<i64: 2, 3>], ["indices_sorted", false], ["unique_indices", false]]}, ["*", "*"]]}}} : (tensor<3xf32>, tensor<3x2xi32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
