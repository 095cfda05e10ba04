// Differences invert a cumulative sum. Its matrix is triangular with ones on the diagonal.

// RUN: jaxmlir-opt --jaxpr-inverse=log-det=true %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[1.0, 3.0, 6.0]' | FileCheck %s --check-prefix=EXEC

// CHECK:     func.func private @f.inverse(%[[Y:.*]]: tensor<3xf32>) -> (tensor<3xf32>, tensor<f32>) {
// CHECK:       %[[BEFORE:.*]] = "jaxpr.concatenate"
// CHECK-NEXT:  %[[X:.*]] = "jaxpr.sub"(%[[Y]], %[[BEFORE]])
// CHECK:       return %[[X]],

// EXEC:      result[0]: f32[3] = [1.0, 2.0, 3.0]
// EXEC-NEXT: result[1]: f32[] = 0.0
func.func public @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.cumsum"(%x) {axis = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
