// sort: Sorts along a dimension by the first num_keys operands; the others are permuted in the same
// way.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[3.0, 1.0, 2.0], [0, 1, 2]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.sort"(%{{.*}}, %{{.*}}) {dimension = 0 : i64, is_stable = true, num_keys = 1 : i64} : (tensor<3xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xi32>)
// HLO: "stablehlo.sort"(%{{.*}}, %{{.*}})
// HLO: stablehlo.compare EQ, %{{.*}}, %{{.*}}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
// HLO: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<f32>
// EXEC: result[0]: f32[3] = [1.0, 2.0, 3.0]
// EXEC: result[1]: i32[3] = [1, 2, 0]
func.func public @sort(%arg0: tensor<3xf32>, %arg1: tensor<3xi32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %0:2 = "jaxpr.sort"(%arg0, %arg1) {dimension = 0 : i64, is_stable = true, num_keys = 1 : i64} : (tensor<3xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32>
}
