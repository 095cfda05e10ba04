// philox4x32: Philox-4x32 hash, of two key words and four counter words.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0], [1], [2], [3], [4], [5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.philox4x32"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>)
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<1xui32>
// HLO: chlo.mulhi %{{.*}}, %{{.*}} : tensor<1xui32>, tensor<1xui32> -> tensor<1xui32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<1xui32>
// EXEC: result[0]: u32[1] = [4284753893]
// EXEC: result[1]: u32[1] = [4059541390]
// EXEC: result[2]: u32[1] = [3097397904]
// EXEC: result[3]: u32[1] = [2647434383]
func.func public @philox4x32(%arg0: tensor<1xui32>, %arg1: tensor<1xui32>, %arg2: tensor<1xui32>, %arg3: tensor<1xui32>, %arg4: tensor<1xui32>, %arg5: tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) {
  %0:4 = "jaxpr.philox4x32"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) : (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>
}
