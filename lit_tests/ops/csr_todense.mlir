// csr_todense: The dense matrix of a CSR one.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [0, 2, 2], [0, 2, 3]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.csr_todense"(%{{.*}}, %{{.*}}, %{{.*}}) {shape = array<i64: 2, 3>} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3xf32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<3xi32>
// HLO: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<3xi1>, tensor<3xi32>
// EXEC: result: f32[2,3] = {{\[\[}}1.0, 0.0, 2.0],
// EXEC-NEXT: [0.0, 0.0, 3.0]]
func.func public @csr_todense(%arg0: tensor<3xf32>, %arg1: tensor<3xi32>, %arg2: tensor<3xi32>) -> tensor<2x3xf32> {
  %0 = "jaxpr.csr_todense"(%arg0, %arg1, %arg2) {shape = array<i64: 2, 3>} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
