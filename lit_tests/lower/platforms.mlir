// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=CPU
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cuda %s | FileCheck %s --check-prefix=CUDA
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu,tpu %s | FileCheck %s --check-prefix=BOTH
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=tpu,cpu %s | jaxmlir-run --args '1.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=tpu,cuda %s | not jaxmlir-run --args '1.0' 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: jaxmlir-run %s --args '1.0' | FileCheck %s --check-prefix=EXEC

// Lowering for one platform fixes the platform's index. A program that is lowered for several
// platforms takes the index as its first argument, and jaxmlir-run passes it.

// CPU-LABEL: func.func public @f(%arg0: tensor<f32>)
// CPU: stablehlo.constant dense<0>
// CPU-NOT: platform_index
// CUDA-LABEL: func.func public @f(%arg0: tensor<f32>)
// CUDA: stablehlo.constant dense<1>
// BOTH-LABEL: func.func public @f
// BOTH-SAME: [[platform:%.*]]: tensor<i32> {jax.global_constant = "_platform_index", jaxpr.platforms = ["cpu", "tpu"]}, %{{.*}}: tensor<f32>
// BOTH: "stablehlo.case"([[platform]])
// OTHER: error: @f was lowered for tpu, cuda, not for cpu
// EXEC: result: f32[] = 11.0
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.platform_index"() {platforms = [["cpu"], none]} : () -> tensor<i32>
  %1 = "jaxpr.cond"(%0, %x) {branches = [@ten_more, @hundred_more], branches_platforms = [["cpu"], none]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @ten_more(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<10.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.add"(%x, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @hundred_more(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<100.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.add"(%x, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
