// reduce: Reduction by any associative function; operands (*arrays, *initial values): a result for
// each array.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reduce"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dimensions = array<i64: 0>, jaxpr = @lambda} : (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
// HLO: stablehlo.reduce(%{{.*}} init: %{{.*}}), (%{{.*}} init: %{{.*}}) across dimensions = [0] : (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<f32>
// EXEC: result[0]: f32[] = 6.0
// EXEC: result[1]: f32[] = 120.0
func.func public @reduce(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %2:2 = "jaxpr.reduce"(%arg0, %arg1, %0, %1) {dimensions = array<i64: 0>, jaxpr = @lambda} : (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %2#0, %2#1 : tensor<f32>, tensor<f32>
}
func.func private @lambda(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.add"(%arg0, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%arg1, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
