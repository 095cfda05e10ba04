// scan: Loop with a static trip count: (*consts, *carry, *xs) -> (*carry, *ys); step i sees xs[i]
// and writes ys[i].

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '1.0, [2.0, 3.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.scan"(%{{.*}}, %{{.*}}) {jaxpr = @lambda, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>)
// HLO: stablehlo.while
// HLO: stablehlo.compare LT
// HLO: stablehlo.add
// EXEC: result[0]: f32[] = 10.0
// EXEC: result[1]: f32[3] = [2.0, 9.0, 24.0]
func.func public @scan(%arg0: tensor<f32>, %arg1: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) {
  %0:2 = "jaxpr.scan"(%arg0, %arg1) {jaxpr = @lambda, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<f32>, tensor<3xf32>
}
func.func private @lambda(%arg0: tensor<f32>, %arg1: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.add"(%arg0, %arg1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%arg0, %arg1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
