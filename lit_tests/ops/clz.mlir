// clz: Number of leading zero bits of x.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1, -1]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.clz"(%{{.*}}) : (tensor<2xi32>) -> tensor<2xi32>
// HLO: stablehlo.count_leading_zeros %{{.*}} : tensor<2xi32>
// EXEC: result: i32[2] = [31, 0]
func.func public @clz(%arg0: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "jaxpr.clz"(%arg0) : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
