// Elementwise ops repeat operands along dimensions of size 1. A mask with one row applies to all
// rows: the coupling layer is solved column by column, and the mask and the scale are sliced too.
//
//   f(x) = m x + (1 - m) x exp(sum_j m x[:, j]),   m = (1, 0)

// RUN: jaxmlir-opt --jaxpr-inverse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[[0.0, 1.0], [1.0, 2.7182817]]' | FileCheck %s --check-prefix=EXEC

// CHECK: func.func private @f.inverse(%{{.*}}: tensor<2x2xf32>) -> tensor<2x2xf32> {
// CHECK: "jaxpr.concatenate"(%{{.*}}, %{{.*}}) {dimension = 1 : i64}

// EXEC:      result: f32[2,2] = {{\[\[}}0.0, 1.0],
// EXEC-NEXT:   [1.0, {{(1\.0|0\.99999).*}}]]
func.func public @f(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %m = "jaxpr.constant"() {value = dense<[[1.0, 0.0]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32>
  %n = "jaxpr.constant"() {value = dense<[[0.0, 1.0]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32>
  %kept = "jaxpr.mul"(%x, %m) : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %sum = "jaxpr.reduce_sum"(%kept) {axes = array<i64: 1>} : (tensor<2x2xf32>) -> tensor<2xf32>
  %exp = "jaxpr.exp"(%sum) : (tensor<2xf32>) -> tensor<2xf32>
  %scale = "jaxpr.reshape"(%exp) {new_sizes = array<i64: 2, 1>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %scaled = "jaxpr.mul"(%x, %scale) : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %other = "jaxpr.mul"(%scaled, %n) : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %y = "jaxpr.add"(%kept, %other) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
