// Batching: only values that depend on a batched argument are batched, and a scan stays one scan.

// RUN: jaxmlir-opt --jaxpr-vmap='axis-size=2 in-axes=0,-1 out-axes=0,-1' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.vmap --args '[0.0, 1.0], [1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC
// RUN: not jaxmlir-opt --jaxpr-vmap='axis-size=2 out-axes=-1,0' %s 2>&1 | FileCheck %s --check-prefix=NONE

// The running sum is batched, but the rows that it adds are not; exp has no batched operand.
// CHECK:      func.func private @f.vmap(%[[X:.*]]: tensor<2xf32>, %[[ROWS:.*]]: tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>)
// CHECK-NEXT:   %[[EXP:.*]] = "jaxpr.exp"(%[[ROWS]]) : (tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.scan"(%[[X]], %[[ROWS]]) {jaxpr = @[[BODY:.*]], length = 3 : i64, num_carry = 1 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
// CHECK-NEXT:   return %[[SUM]], %[[EXP]]
// CHECK:      func.func private @[[BODY]](%{{.*}}: tensor<2xf32>, %{{.*}}: tensor<f32>) -> tensor<2xf32>

// EXEC:      result[0]: f32[2] = [6.0, 7.0]
// EXEC-NEXT: result[1]: f32[3] = [2.71828{{[0-9]*}}, 7.38905{{[0-9]*}}, 20.0855{{[0-9]*}}]

// NONE: result 0 of @f is batched, but out_axes has None for it
func.func public @f(%x: tensor<f32>, %rows: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) {
  %0 = "jaxpr.exp"(%rows) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "jaxpr.scan"(%x, %rows) {jaxpr = @body, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<3xf32>) -> tensor<f32>
  return %1, %0 : tensor<f32>, tensor<3xf32>
}
func.func private @body(%sum: tensor<f32>, %row: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%sum, %row) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
