// mulhi: High half of the double-width integer product, (x * y) >> bits.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[3, 2147483648], [4, 6]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.mulhi"(%{{.*}}, %{{.*}}) : (tensor<2xui32>, tensor<2xui32>) -> tensor<2xui32>
// HLO: chlo.mulhi %{{.*}}, %{{.*}} : tensor<2xui32>, tensor<2xui32> -> tensor<2xui32>
// EXEC: result: u32[2] = [0, 3]
func.func public @mulhi(%arg0: tensor<2xui32>, %arg1: tensor<2xui32>) -> tensor<2xui32> {
  %0 = "jaxpr.mulhi"(%arg0, %arg1) : (tensor<2xui32>, tensor<2xui32>) -> tensor<2xui32>
  return %0 : tensor<2xui32>
}
