// bcoo_extract: The elements of a dense array at BCOO indices; operands (indices, array).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [[0, 0], [0, 2], [1, 2]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bcoo_extract"(%{{.*}}, %{{.*}}) {assume_unique = false} : (tensor<3x2xi32>, tensor<2x3xf32>) -> tensor<3xf32>
// HLO: stablehlo.compare GE, %{{.*}}, %{{.*}}, SIGNED : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
// HLO: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.or across dimensions = [1] : (tensor<3x2xi1>, tensor<i1>) -> tensor<3xi1>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
// EXEC: result[0]: f32[3] = [1.0, 3.0, 6.0]
// EXEC: result[1]: i32[3,2] = {{\[\[}}0, 0],
// EXEC-NEXT: [0, 2],
// EXEC-NEXT: [1, 2]]
func.func public @bcoo_extract(%arg0: tensor<3xf32>, %arg1: tensor<3x2xi32>, %arg2: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3x2xi32>) {
  %0 = "jaxpr.bcoo_extract"(%arg1, %arg2) {assume_unique = false} : (tensor<3x2xi32>, tensor<2x3xf32>) -> tensor<3xf32>
  return %0, %arg1 : tensor<3xf32>, tensor<3x2xi32>
}
