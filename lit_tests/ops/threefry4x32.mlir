// threefry4x32: Threefry-4x32 hash, of four key words and four counter words.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0], [1], [2], [3], [4], [5], [6], [7]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.threefry4x32"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>)
// HLO: stablehlo.xor %{{.*}}, %{{.*}} : tensor<1xui32>
// HLO: stablehlo.xor %{{.*}}, %{{.*}} : tensor<1xui32>
// HLO: stablehlo.xor %{{.*}}, %{{.*}} : tensor<1xui32>
// EXEC: result[0]: u32[1] = [651178346]
// EXEC: result[1]: u32[1] = [952946148]
// EXEC: result[2]: u32[1] = [785994116]
// EXEC: result[3]: u32[1] = [2214768132]
func.func public @threefry4x32(%arg0: tensor<1xui32>, %arg1: tensor<1xui32>, %arg2: tensor<1xui32>, %arg3: tensor<1xui32>, %arg4: tensor<1xui32>, %arg5: tensor<1xui32>, %arg6: tensor<1xui32>, %arg7: tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) {
  %0:4 = "jaxpr.threefry4x32"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7) : (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>
}
