// Cumulative log-sum-exps: pairs are combined first, then the elements between the pairs follow.

// RUN: jaxmlir-opt --jaxpr-expand-cumlogsumexp='calls=inf min-length=2 min-elements=0' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-expand-cumlogsumexp=calls=inf %s -o %t.small
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-cumlogsumexp='calls=inf min-length=2 min-elements=0' %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.small %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[0.0, 0.0, -100.0, 50.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[0.0, 0.0, -100.0, 50.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-expand-cumlogsumexp='calls=inf min-length=2 min-elements=0' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: expand-cumlogsumexp.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-cumlogsumexp] expanded by recursive halving of 4 elements

// CHECK-LABEL: func.func public @main
// CHECK:         "jaxpr.log1p"({{.*}} -> tensor<2xf32>
// CHECK:         "jaxpr.log1p"({{.*}} -> tensor<1xf32>
// CHECK:         "jaxpr.log1p"({{.*}} -> tensor<1xf32>
// CHECK-NOT:     "jaxpr.log1p"

// EXEC: result: f32[4] = [0.0, 0.693147{{[0-9]*}}, 0.693147{{[0-9]*}}, 50.0]
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.cumlogsumexp"(%x) {axis = 0 : i64, reverse = false} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
