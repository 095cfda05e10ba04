// csr_spmm: csr_matmat as one vendor library call.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s

// JAX lowers it for GPUs only.

// CHECK: "jaxpr.csr_spmm"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {shape = array<i64: 2, 3>} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3x1xf32>) -> tensor<2x1xf32>
func.func public @csr_spmm(%arg0: tensor<3xf32>, %arg1: tensor<3xi32>, %arg2: tensor<3xi32>, %arg3: tensor<3x1xf32>) -> tensor<2x1xf32> {
  %0 = "jaxpr.csr_spmm"(%arg0, %arg1, %arg2, %arg3) {shape = array<i64: 2, 3>} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3x1xf32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}
