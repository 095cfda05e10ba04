// RUN: jaxmlir-opt --jaxpr-raise-stablehlo --jaxpr-verify %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=keys --args '[1, 0, 1, 0], [1.0, -2.0, -3.0, 2.0]' | FileCheck %s --check-prefix=KEYS
// RUN: jaxmlir-run %t --entry=network --args '[1.0, -2.0, 3.0, -1.0]' | FileCheck %s --check-prefix=NETWORK

// A comparator that orders by keys, each up or down, is a sort by these keys: here the first operand
// up, then the second one down.

// CHECK: func.func public @keys(%[[K:.*]]: tensor<4xi32>, %[[X:.*]]: tensor<4xf32>)
// CHECK:   %[[DOWN:.*]] = "jaxpr.neg"(%[[X]])
// CHECK:   "jaxpr.sort"(%[[K]], %[[DOWN]], %[[K]], %[[X]]) {dimension = 0 : i64, is_stable = true, num_keys = 2 : i64}

// KEYS: result[0]: i32[4] = [0, 0, 1, 1]
// KEYS: result[1]: f32[4] = [2.0, -2.0, 1.0, -3.0]
func.func public @keys(%k: tensor<4xi32>, %x: tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>) {
  %0:2 = "stablehlo.sort"(%k, %x) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<f32>):
    %1 = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %2 = stablehlo.compare EQ, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %3 = stablehlo.compare GT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.and %2, %3 : tensor<i1>
    %5 = stablehlo.or %1, %4 : tensor<i1>
    stablehlo.return %5 : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<4xi32>, tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xi32>, tensor<4xf32>
}

// Any other comparator is applied by a sorting network: a scan over its steps.

// CHECK: func.func public @network
// CHECK-NOT: jaxpr.sort
// CHECK:   "jaxpr.scan"({{.*}}length = 3 : i64

// NETWORK: result: f32[4] = [1.0, -1.0, -2.0, 3.0]
func.func public @network(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.sort"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.abs %a : tensor<f32>
    %2 = stablehlo.abs %b : tensor<f32>
    %3 = stablehlo.compare LT, %1, %2 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
