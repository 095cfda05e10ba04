// The index of the taken branch has to be known; then each branch is inverted.

// RUN: jaxmlir-opt --jaxpr-inverse='known=0 log-det=true' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '2.0, 0' | FileCheck %s --check-prefix=EXP
// RUN: jaxmlir-run %t --entry=f.inverse --args '2.0, 1' | FileCheck %s --check-prefix=NEG

// A branch without a log-determinant returns 0.
// CHECK:      func.func private @f.inverse(%[[Y:.*]]: tensor<f32>, %[[I:.*]]: tensor<i32>) -> (tensor<f32>, tensor<f32>) {
// CHECK-NEXT:   %[[X:.*]]:2 = "jaxpr.cond"(%[[I]], %[[Y]]) {branches = [@{{.*}}, @{{.*}}]}
// CHECK-NEXT:   return %[[X]]#0, %[[X]]#1

// EXP:      result[0]: f32[] = 0.6931{{[0-9]*}}
// EXP-NEXT: result[1]: f32[] = -0.6931{{[0-9]*}}
// NEG:      result[0]: f32[] = -2.0
// NEG-NEXT: result[1]: f32[] = 0.0
func.func public @f(%i: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.cond"(%i, %x) {branches = [@exp, @neg]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @exp(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.exp"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @neg(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.neg"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
