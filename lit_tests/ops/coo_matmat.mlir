// coo_matmat: COO matrix times dense matrix.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [0, 0, 1], [0, 2, 2], [[1.0], [10.0], [100.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.coo_matmat"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {spinfo = {COOInfo = {shape = array<i64: 2, 3>}}} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3x1xf32>) -> tensor<2x1xf32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<3xi32>
// HLO: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<3xi1>, tensor<3xi32>
// EXEC: result: f32[2,1] = {{\[\[}}201.0],
// EXEC-NEXT: [300.0]]
func.func public @coo_matmat(%arg0: tensor<3xf32>, %arg1: tensor<3xi32>, %arg2: tensor<3xi32>, %arg3: tensor<3x1xf32>) -> tensor<2x1xf32> {
  %0 = "jaxpr.coo_matmat"(%arg0, %arg1, %arg2, %arg3) {spinfo = {COOInfo = {shape = array<i64: 2, 3>}}} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3x1xf32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}
