// Canonicalization of arithmetic: exact, or with fast-math.

// RUN: jaxmlir-opt --jaxpr-canonicalize %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-canonicalize=fast-math=true %s | FileCheck %s --check-prefix=FAST
// RUN: jaxmlir-run %s --args '-0.0, 3' > %t.before
// RUN: jaxmlir-run %t --args '-0.0, 3' > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after
// RUN: jaxmlir-opt --jaxpr-canonicalize --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: canonicalize-arithmetic.mlir:{{[0-9]+}}:8: remark: [jaxpr-canonicalize] 'jaxpr.sub' simplified by sub(x, 0) = x if integer or float

func.func public @main(%x: tensor<f32>, %n: tensor<i32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>, tensor<i32>, tensor<i1>) {
  // CHECK: func.func public @main(%[[X:.*]]: tensor<f32>, %[[N:.*]]: tensor<i32>)
  // FAST:  func.func public @main(%[[X:.*]]: tensor<f32>, %[[N:.*]]: tensor<i32>)
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %none = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>

  // x - 0 = x, but x + 0 is not x: -0.0 + 0.0 = 0.0 (unless XLA simplifies it).
  // CHECK: %[[SUM:.*]] = "jaxpr.add"(%[[X]], %{{.*}})
  %0 = "jaxpr.sub"(%x, %zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%x, %zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // EXEC: result[0]: f32[] = -0.0
  // EXEC-NEXT: result[1]: f32[] = {{-?}}0.0

  // x * 0 is NaN if x is NaN; for integers n * 0 = 0.
  // CHECK: %[[PRODUCT:.*]] = "jaxpr.mul"(%[[X]], %{{.*}})
  // CHECK-NEXT: %[[NONE:.*]] = "jaxpr.constant"() {value = dense<0> : tensor<i32>}
  %2 = "jaxpr.mul"(%x, %zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = "jaxpr.mul"(%n, %none) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  // EXEC-NEXT: result[2]: f32[] = -0.0
  // EXEC-NEXT: result[3]: i32[] = 0

  // x - (-(-x)) = x - x, which is NaN if x is infinite.
  // CHECK-NEXT: %[[DIFFERENCE:.*]] = "jaxpr.sub"(%[[X]], %[[X]])
  %4 = "jaxpr.neg"(%x) : (tensor<f32>) -> tensor<f32>
  %5 = "jaxpr.neg"(%4) : (tensor<f32>) -> tensor<f32>
  %6 = "jaxpr.sub"(%x, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // EXEC-NEXT: result[4]: f32[] = 0.0

  // Ops on known integers are evaluated: (2 + 5) rem 4 = 3.
  // CHECK-NEXT: %[[THREE:.*]] = "jaxpr.constant"() {value = dense<3> : tensor<i32>}
  %two = "jaxpr.constant"() {value = dense<2> : tensor<i32>} : () -> tensor<i32>
  %five = "jaxpr.constant"() {value = dense<5> : tensor<i32>} : () -> tensor<i32>
  %four = "jaxpr.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  %7 = "jaxpr.add"(%two, %five) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %8 = "jaxpr.rem"(%7, %four) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  // EXEC-NEXT: result[5]: i32[] = 3

  // not(x < y) is not x >= y, because both comparisons are false for NaN; not(n < m) = n >= m.
  // CHECK-NEXT: %[[GE:.*]] = "jaxpr.ge"(%[[N]], %[[THREE]])
  %9 = "jaxpr.lt"(%n, %8) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %10 = "jaxpr.not"(%9) : (tensor<i1>) -> tensor<i1>
  // EXEC-NEXT: result[6]: bool[] = {{[Tt]}}rue

  // CHECK-NEXT: return %[[X]], %[[SUM]], %[[PRODUCT]], %[[NONE]], %[[DIFFERENCE]], %[[THREE]], %[[GE]]
  // FAST-NOT: jaxpr.add
  // FAST-NOT: jaxpr.mul
  // FAST-NOT: jaxpr.sub
  // FAST: return %[[X]], %[[X]],
  return %0, %1, %2, %3, %6, %8, %10 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>, tensor<i32>, tensor<i1>
}
