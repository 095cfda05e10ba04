// broadcast_in_dim: Repeats the operand: its dimension i becomes result dimension
// broadcast_dimensions[i].

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.broadcast_in_dim"(%{{.*}}) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 2, 3>} : (tensor<2xf32>) -> tensor<2x3xf32>
// HLO: stablehlo.broadcast_in_dim %{{.*}}, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
// EXEC: result: f32[2,3] = {{\[\[}}1.0, 1.0, 1.0],
// EXEC-NEXT: [2.0, 2.0, 2.0]]
func.func public @broadcast_in_dim(%arg0: tensor<2xf32>) -> tensor<2x3xf32> {
  %0 = "jaxpr.broadcast_in_dim"(%arg0) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 2, 3>} : (tensor<2xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
