// bcsr_extract: The elements of a dense array at BCSR indices; operands (indices, indptr, array).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0, 2, 2], [0, 2, 3], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcsr_extract"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3xi32>, tensor<3xi32>, tensor<2x3xf32>) -> tensor<3xf32>
// HLO: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
// HLO: stablehlo.slice %{{.*}} [0:3, 0:1] : (tensor<3x2xi32>) -> tensor<3x1xi32>
// HLO: stablehlo.slice %{{.*}} [0:3, 1:2] : (tensor<3x2xi32>) -> tensor<3x1xi32>
// EXEC: result: f32[3] = [1.0, 3.0, 6.0]
func.func public @bcsr_extract(%arg0: tensor<3xi32>, %arg1: tensor<3xi32>, %arg2: tensor<2x3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.bcsr_extract"(%arg0, %arg1, %arg2) : (tensor<3xi32>, tensor<3xi32>, tensor<2x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
