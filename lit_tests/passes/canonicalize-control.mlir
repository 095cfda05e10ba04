// Canonicalization of calls, branches and loops, based on what the called functions return.

// RUN: jaxmlir-opt --jaxpr-canonicalize --jaxpr-dce %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-canonicalize --jaxpr-dce %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '2.0, 3.0, [5.0]' > %t.before
// RUN: jaxmlir-run %t --args '2.0, 3.0, [5.0]' > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after

func.func public @main(%x: tensor<f32>, %y: tensor<f32>, %row: tensor<1xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  // CHECK: func.func public @main(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>, %[[ROW:.*]]: tensor<1xf32>)

  // swap(x, y) = (y, x): the function returns its arguments.
  %0:2 = "jaxpr.jit"(%x, %y) {jaxpr = @swap} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  // EXEC: result[0]: f32[] = 3.0
  // EXEC-NEXT: result[1]: f32[] = 2.0

  // cond(1, negate, double)(x) = double(x)
  // CHECK-NEXT: %[[DOUBLE:.*]] = "jaxpr.add"(%[[X]], %[[X]])
  %1 = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %2 = "jaxpr.cond"(%1, %x) {branches = [@negate, @double]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
  // EXEC-NEXT: result[2]: f32[] = 4.0

  // cond(i, f, g)(x, y) = (..., y) where both return y
  %3 = "jaxpr.convert_element_type"(%x) {new_dtype = i32} : (tensor<f32>) -> tensor<i32>
  %4:2 = "jaxpr.cond"(%3, %x, %y) {branches = [@first, @second]} : (tensor<i32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  // CHECK: %[[BRANCH:.*]] = "jaxpr.cond"(%{{.*}}, %[[X]]) {branches = [@first, @second]}
  // EXEC-NEXT: result[3]: f32[] = 2.0
  // EXEC-NEXT: result[4]: f32[] = 3.0

  // while(false, double)(x) = x
  %5 = "jaxpr.while"(%x) {cond_jaxpr = @never, body_jaxpr = @double} : (tensor<f32>) -> tensor<f32>
  // EXEC-NEXT: result[5]: f32[] = 2.0

  // while(c, f)(x, y) = (while(d, g)(x), y) where f returns y: y is a constant of d and g
  %6:2 = "jaxpr.while"(%x, %y) {cond_jaxpr = @small, body_jaxpr = @add_second} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  // CHECK: %[[LOOP:.*]] = "jaxpr.while"(%[[Y]], %[[X]]) {body_jaxpr = @add_second_0, body_nconsts = 1 : i64, cond_jaxpr = @small_0}
  // EXEC-NEXT: result[6]: f32[] = 11.0

  // scan[length=1](f)(x, row) = f(x, row[0])
  // CHECK-NEXT: %[[ELEMENT:.*]] = "jaxpr.squeeze"(%[[ROW]]) {dimensions = array<i64: 0>}
  // CHECK-NEXT: %[[PRODUCT:.*]] = "jaxpr.mul"(%[[X]], %[[ELEMENT]])
  // CHECK-NEXT: %[[STACK:.*]] = "jaxpr.broadcast_in_dim"(%[[X]]) {broadcast_dimensions = [], shape = array<i64: 1>}
  %7:2 = "jaxpr.scan"(%x, %row) {jaxpr = @step, length = 1 : i64, num_carry = 1 : i64} : (tensor<f32>, tensor<1xf32>) -> (tensor<f32>, tensor<1xf32>)
  // EXEC-NEXT: result[7]: f32[] = 10.0
  // EXEC-NEXT: result[8]: f32[1] = [2.0]

  // scan[length=0](f)(x) = x
  %8 = "jaxpr.scan"(%x) {jaxpr = @double, length = 0 : i64, num_carry = 1 : i64} : (tensor<f32>) -> tensor<f32>
  // EXEC-NEXT: result[9]: f32[] = 2.0

  // scan(f)(x, y) = (scan(g)(x), y) where f returns y: y is a constant of g
  // CHECK-NEXT: %[[SCAN:.*]] = "jaxpr.scan"(%[[Y]], %[[X]]) {jaxpr = @add_second_0, length = 4 : i64, num_carry = 1 : i64, num_consts = 1 : i64}
  %9:2 = "jaxpr.scan"(%x, %y) {jaxpr = @add_second, length = 4 : i64, num_carry = 2 : i64} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  // EXEC-NEXT: result[10]: f32[] = 14.0
  // EXEC-NEXT: result[11]: f32[] = 3.0

  // cond(platform_index, negate, double)(x) = double(x) where the first branch is only for kernels
  // CHECK-NEXT: %[[PLATFORM:.*]] = "jaxpr.add"(%[[X]], %[[X]])
  %10 = "jaxpr.platform_index"() {platforms = [["mosaic"], none]} : () -> tensor<i32>
  %11 = "jaxpr.cond"(%10, %x) {branches = [@negate, @double], branches_platforms = [["mosaic"], none]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
  // EXEC-NEXT: result[12]: f32[] = 4.0

  // CHECK-NEXT: return %[[Y]], %[[X]], %[[DOUBLE]], %[[BRANCH]], %[[Y]], %[[X]], %[[LOOP]], %[[PRODUCT]], %[[STACK]], %[[X]], %[[SCAN]], %[[Y]], %[[PLATFORM]]
  return %0#0, %0#1, %2, %4#0, %4#1, %5, %6#0, %7#0, %7#1, %8, %9#0, %9#1, %11 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
func.func private @swap(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  return %y, %x : tensor<f32>, tensor<f32>
}
func.func private @negate(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.neg"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @double(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @first(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.neg"(%x) : (tensor<f32>) -> tensor<f32>
  return %0, %y : tensor<f32>, tensor<f32>
}
func.func private @second(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  return %x, %y : tensor<f32>, tensor<f32>
}
func.func private @never(%x: tensor<f32>) -> tensor<i1> {
  %0 = "jaxpr.constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @small(%x: tensor<f32>, %y: tensor<f32>) -> tensor<i1> {
  %0 = "jaxpr.constant"() {value = dense<10.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.lt"(%x, %0) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func private @add_second(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %y : tensor<f32>, tensor<f32>
}
func.func private @step(%x: tensor<f32>, %element: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.mul"(%x, %element) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %x : tensor<f32>, tensor<f32>
}
