// Independent scans with the same body become one scan of a batch.

// RUN: jaxmlir-opt --jaxpr-fuse-scans %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-fuse-scans %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt --jaxpr-fuse-scans=max-work=1 %s | FileCheck %s --check-prefix=DEAR
// RUN: jaxmlir-run %s --args '1.0, 2.0, [1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '1.0, 2.0, [1.0, 2.0, 3.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-fuse-scans --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The bodies differ in a number: its two values are stacked as an operand of the batch, and so are
// the initial values. Both scans read the same rows, which are not batched. The sine of the first
// result is between the two scans, and moves behind them. The third scan needs the sine, and stays.
// CHECK:      func.func public @main(
// CHECK:        %[[BATCH:.*]] = "jaxpr.scan"(%{{.*}}, %{{.*}}, %arg2) {jaxpr = @[[BODY:.*]], length = 3 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
// CHECK-NOT:    jaxpr.scan
// CHECK:        %[[SIN:.*]] = "jaxpr.sin"
// CHECK:        "jaxpr.scan"(%[[SIN]], %arg2) {jaxpr = @first, length = 3 : i64, num_carry = 1 : i64}
// CHECK:      func.func private @[[BODY]](%{{.*}}: tensor<2xf32>, %{{.*}}: tensor<2xf32>, %{{.*}}: tensor<f32>) -> tensor<2xf32>

// DEAR-COUNT-3: jaxpr.scan

// EXEC:      result[0]: f32[] = 163.0
// EXEC-NEXT: result[1]: f32[] =
// EXEC-NEXT: result[2]: f32[] =

// REMARK: fuse-scans.mlir:{{[0-9]+}}:8: remark: [jaxpr-fuse-scans] batched 2 independent loops of 3 iterations into one loop
func.func public @main(%x: tensor<f32>, %y: tensor<f32>, %rows: tensor<3xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.scan"(%x, %rows) {jaxpr = @first, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<3xf32>) -> tensor<f32>
  %1 = "jaxpr.sin"(%0) : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.scan"(%y, %rows) {jaxpr = @second, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<3xf32>) -> tensor<f32>
  %3 = "jaxpr.scan"(%1, %rows) {jaxpr = @first, length = 3 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<3xf32>) -> tensor<f32>
  return %0, %2, %3 : tensor<f32>, tensor<f32>, tensor<f32>
}
func.func private @first(%c: tensor<f32>, %row: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<5.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%c, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add"(%1, %row) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
func.func private @second(%c: tensor<f32>, %row: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.mul"(%c, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add"(%1, %row) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
