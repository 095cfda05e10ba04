// rem: Remainder of the division towards zero, x - y * trunc(x / y); it has the sign of x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[7, -7], [3, 3]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.rem"(%{{.*}}, %{{.*}}) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
// HLO: stablehlo.remainder %{{.*}}, %{{.*}} : tensor<2xi32>
// EXEC: result: i32[2] = [1, -1]
func.func public @rem(%arg0: tensor<2xi32>, %arg1: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "jaxpr.rem"(%arg0, %arg1) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
