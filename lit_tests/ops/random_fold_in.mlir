// random_fold_in: A new key from each key and integer.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0, 0], 3' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.random_fold_in"(%{{.*}}, %{{.*}}) : (tensor<!jaxpr.key<"fry">>, tensor<ui32>) -> tensor<!jaxpr.key<"fry">>
// HLO: stablehlo.shift_right_logical %{{.*}}, %{{.*}} : tensor<ui32>
// HLO: stablehlo.and %{{.*}}, %{{.*}} : tensor<ui32>
// HLO: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>
// EXEC: result: key<fry>[] = [2467461003, 3840466878]
func.func public @random_fold_in(%arg0: tensor<!jaxpr.key<"fry">>, %arg1: tensor<ui32>) -> tensor<!jaxpr.key<"fry">> {
  %0 = "jaxpr.random_fold_in"(%arg0, %arg1) : (tensor<!jaxpr.key<"fry">>, tensor<ui32>) -> tensor<!jaxpr.key<"fry">>
  return %0 : tensor<!jaxpr.key<"fry">>
}
