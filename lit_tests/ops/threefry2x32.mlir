// threefry2x32: Threefry-2x32 hash; operands (key0, key1, counter0, counter1).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1], [2], [3], [4]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.threefry2x32"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>)
// HLO: stablehlo.xor %{{.*}}, %{{.*}} : tensor<1xui32>
// HLO: stablehlo.xor %{{.*}}, %{{.*}} : tensor<1xui32>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<1xui32>
// EXEC: result[0]: u32[1] = [1576285164]
// EXEC: result[1]: u32[1] = [2249660814]
func.func public @threefry2x32(%arg0: tensor<1xui32>, %arg1: tensor<1xui32>, %arg2: tensor<1xui32>, %arg3: tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>) {
  %0:2 = "jaxpr.threefry2x32"(%arg0, %arg1, %arg2, %arg3) : (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>)
  return %0#0, %0#1 : tensor<1xui32>, tensor<1xui32>
}
