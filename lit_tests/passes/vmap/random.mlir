// Random keys are batched like numbers: each key draws the same bits as it draws alone. These are
// the bits of jax.random.bits for the seeds 0 and 1.

// RUN: jaxmlir-opt --jaxpr-vmap=axis-size=2 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[0, 1]' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.vmap(%[[SEEDS:.*]]: tensor<2xui32>) -> tensor<2x2xui32>
// CHECK-NEXT:   %[[KEYS:.*]] = "jaxpr.random_seed"(%[[SEEDS]]) {{.*}} -> tensor<2x!jaxpr.key<"fry">>
// CHECK-NEXT:   "jaxpr.random_bits"(%[[KEYS]]) {{.*}} : (tensor<2x!jaxpr.key<"fry">>) -> tensor<2x2xui32>

// EXEC:      result: u32[2,2] = {{\[}}[4070199207, 4202968722],
// EXEC-NEXT: [1883912375, 2292451390]]
func.func public @f(%seed: tensor<ui32>) -> tensor<2xui32> {
  %0 = "jaxpr.random_seed"(%seed) {impl = {PRNGImpl = "threefry2x32"}} : (tensor<ui32>) -> tensor<!jaxpr.key<"fry">>
  %1 = "jaxpr.random_bits"(%0) {bit_width = 32 : i64, shape = array<i64: 2>} : (tensor<!jaxpr.key<"fry">>) -> tensor<2xui32>
  return %1 : tensor<2xui32>
}
