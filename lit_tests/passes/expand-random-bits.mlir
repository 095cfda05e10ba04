// Random bits and keys: the rounds of the hash are elementwise ops, and what they give is stored.

// RUN: jaxmlir-opt --jaxpr-expand-random-bits %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-random-bits %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[1, 2]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1, 2]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-expand-random-bits --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK-DAG: expand-random-bits.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-random-bits] hashes 2 counters without a loop
// REMARK-DAG: expand-random-bits.mlir:{{[0-9]+}}:8: remark: [jaxpr-expand-random-bits] hashes 3 counters without a loop

// CHECK-LABEL:   func.func public @main
// CHECK-COUNT-20: "jaxpr.shift_left"
// CHECK:         "jaxpr.jit"({{.*}} {{.*}}fence
// CHECK:         "jaxpr.random_wrap"
// CHECK-COUNT-20: "jaxpr.shift_left"
// CHECK-NOT:     "jaxpr.shift_left"
// CHECK-NOT:     "jaxpr.random_bits"
// CHECK-NOT:     "jaxpr.random_split"

// EXEC: result: u32[3] = [2165639866, 1815430491, 971960109]
func.func public @main(%words: tensor<2xui32>) -> tensor<3xui32> {
  %0 = "jaxpr.random_wrap"(%words) {impl = {PRNGImpl = "threefry2x32"}} : (tensor<2xui32>) -> tensor<!jaxpr.key<"fry">>
  %1 = "jaxpr.random_split"(%0) {shape = array<i64: 2>} : (tensor<!jaxpr.key<"fry">>) -> tensor<2x!jaxpr.key<"fry">>
  %2 = "jaxpr.slice"(%1) {limit_indices = array<i64: 2>, start_indices = array<i64: 1>} : (tensor<2x!jaxpr.key<"fry">>) -> tensor<1x!jaxpr.key<"fry">>
  %3 = "jaxpr.squeeze"(%2) {dimensions = array<i64: 0>} : (tensor<1x!jaxpr.key<"fry">>) -> tensor<!jaxpr.key<"fry">>
  %4 = "jaxpr.random_bits"(%3) {bit_width = 32 : i64, shape = array<i64: 3>} : (tensor<!jaxpr.key<"fry">>) -> tensor<3xui32>
  return %4 : tensor<3xui32>
}
