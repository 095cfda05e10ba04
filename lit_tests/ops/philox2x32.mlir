// philox2x32: Philox-2x32 hash, of a key word and two counter words.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0], [1], [2]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.philox2x32"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>)
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<1xui32>
// HLO: chlo.mulhi %{{.*}}, %{{.*}} : tensor<1xui32>, tensor<1xui32> -> tensor<1xui32>
// HLO: stablehlo.xor %{{.*}}, %{{.*}} : tensor<1xui32>
// EXEC: result[0]: u32[1] = [265829170]
// EXEC: result[1]: u32[1] = [2705655604]
func.func public @philox2x32(%arg0: tensor<1xui32>, %arg1: tensor<1xui32>, %arg2: tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>) {
  %0:2 = "jaxpr.philox2x32"(%arg0, %arg1, %arg2) : (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>)
  return %0#0, %0#1 : tensor<1xui32>, tensor<1xui32>
}
