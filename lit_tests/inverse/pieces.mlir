// If the result of a slice of an unknown array is known, this piece of the array is known; the pieces
// are joined. So a coupling layer is inverted, although it uses its argument twice.
//
//   x = (a, b)        f(x) = (a, b exp(a))

// RUN: jaxmlir-opt --jaxpr-inverse=log-det=true %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[0.0, 1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC

// The first half of the result is the first half of the argument.
// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.slice"(%[[Y]]) {limit_indices = array<i64: 2>, start_indices = array<i64: 0>}
// CHECK-NEXT:   %[[C:.*]] = "jaxpr.slice"(%[[Y]]) {limit_indices = array<i64: 4>, start_indices = array<i64: 2>}
// CHECK-NEXT:   %[[S:.*]] = "jaxpr.exp"(%[[A]])
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.div"(%[[C]], %[[S]])
// CHECK:        "jaxpr.reduce_sum"
// CHECK:        %[[X:.*]] = "jaxpr.concatenate"(%[[A]], %[[B]])
// CHECK:        %[[D:.*]] = "jaxpr.neg"
// CHECK-NEXT:   return %[[X]], %[[D]]

// 3 / e is 1.1036; the log-determinant is -(0 + 1).
// EXEC:      result[0]: f32[4] = [0.0, 1.0, 2.0, 1.1036{{[0-9]*}}]
// EXEC-NEXT: result[1]: f32[] = -1.0
func.func public @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "jaxpr.slice"(%x) {start_indices = array<i64: 0>, limit_indices = array<i64: 2>} : (tensor<4xf32>) -> tensor<2xf32>
  %b = "jaxpr.slice"(%x) {start_indices = array<i64: 2>, limit_indices = array<i64: 4>} : (tensor<4xf32>) -> tensor<2xf32>
  %s = "jaxpr.exp"(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %c = "jaxpr.mul"(%b, %s) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = "jaxpr.concatenate"(%a, %c) {dimension = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
