// Outlining: a block of ops that occurs several times becomes a function, with a call at each place.

// RUN: jaxmlir-opt --jaxpr-outline=min-ops=8 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-outline=min-ops=8 %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt --jaxpr-outline='min-ops=8 keep-calls=true' %s | FileCheck %s --check-prefix=KEPT
// RUN: jaxmlir-opt --jaxpr-outline %s | FileCheck %s --check-prefix=SHORT
// RUN: jaxmlir-run %s --args '0.5' > %t.before
// RUN: jaxmlir-run %t --args '0.5' > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after
// RUN: jaxmlir-opt --jaxpr-outline=min-ops=8 --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The four blocks differ in the values that they read and in a number, which becomes an argument. The
// number that is the same in all blocks is written again in the function.
// CHECK:      func.func public @main(%[[X:.*]]: tensor<f32>)
// CHECK:        %[[TWO:.*]] = "jaxpr.constant"() {value = dense<2.0
// CHECK-NEXT:   %[[THREE:.*]] = "jaxpr.constant"() {value = dense<3.0
// CHECK-NEXT:   %[[FOUR:.*]] = "jaxpr.constant"() {value = dense<4.0
// CHECK-NEXT:   %[[FIVE:.*]] = "jaxpr.constant"() {value = dense<5.0
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.jit"(%[[X]], %[[TWO]]) {jaxpr = @main.block, name = "main"}
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.jit"(%[[A]], %[[THREE]]) {jaxpr = @main.block, name = "main"}
// CHECK-NEXT:   %[[C:.*]] = "jaxpr.jit"(%[[B]], %[[FOUR]]) {jaxpr = @main.block, name = "main"}
// CHECK-NEXT:   %[[D:.*]] = "jaxpr.jit"(%[[C]], %[[FIVE]]) {jaxpr = @main.block, name = "main"}
// CHECK-NEXT:   return %[[D]]
// CHECK:      func.func private @main.block(%[[Y:.*]]: tensor<f32>, %[[N:.*]]: tensor<f32>)
// CHECK-NEXT:   %[[HALF:.*]] = "jaxpr.constant"() {value = dense<5.0
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[Y]])
// CHECK-NEXT:   "jaxpr.mul"(%[[SIN]], %[[N]])

// KEPT: jaxpr.ctx = {xla_metadata = {dict = {{\[\["inlineable", "false"\]\]}}}}

// By default, a block has at least twelve ops.
// SHORT-NOT: main.block

// EXEC: result: f32[] = -1.52508

// REMARK: outline.mlir:{{[0-9]+}}:8: remark: [jaxpr-outline] outlined 10 ops that occur 4 times, with 3 inputs and 1 output:
func.func public @main(%x: tensor<f32>) -> tensor<f32> {
  %half = "jaxpr.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %two = "jaxpr.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %three = "jaxpr.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %four = "jaxpr.constant"() {value = dense<4.0> : tensor<f32>} : () -> tensor<f32>
  %five = "jaxpr.constant"() {value = dense<5.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %two) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.cos"(%1) : (tensor<f32>) -> tensor<f32>
  %3 = "jaxpr.add"(%2, %half) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %4 = "jaxpr.exp"(%3) : (tensor<f32>) -> tensor<f32>
  %5 = "jaxpr.tanh"(%4) : (tensor<f32>) -> tensor<f32>
  %6 = "jaxpr.sub"(%5, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %7 = "jaxpr.abs"(%6) : (tensor<f32>) -> tensor<f32>
  %8 = "jaxpr.sqrt"(%7) : (tensor<f32>) -> tensor<f32>
  %9 = "jaxpr.neg"(%8) : (tensor<f32>) -> tensor<f32>
  %10 = "jaxpr.sin"(%9) : (tensor<f32>) -> tensor<f32>
  %11 = "jaxpr.mul"(%10, %three) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %12 = "jaxpr.cos"(%11) : (tensor<f32>) -> tensor<f32>
  %13 = "jaxpr.add"(%12, %half) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %14 = "jaxpr.exp"(%13) : (tensor<f32>) -> tensor<f32>
  %15 = "jaxpr.tanh"(%14) : (tensor<f32>) -> tensor<f32>
  %16 = "jaxpr.sub"(%15, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %17 = "jaxpr.abs"(%16) : (tensor<f32>) -> tensor<f32>
  %18 = "jaxpr.sqrt"(%17) : (tensor<f32>) -> tensor<f32>
  %19 = "jaxpr.neg"(%18) : (tensor<f32>) -> tensor<f32>
  %20 = "jaxpr.sin"(%19) : (tensor<f32>) -> tensor<f32>
  %21 = "jaxpr.mul"(%20, %four) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %22 = "jaxpr.cos"(%21) : (tensor<f32>) -> tensor<f32>
  %23 = "jaxpr.add"(%22, %half) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %24 = "jaxpr.exp"(%23) : (tensor<f32>) -> tensor<f32>
  %25 = "jaxpr.tanh"(%24) : (tensor<f32>) -> tensor<f32>
  %26 = "jaxpr.sub"(%25, %19) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %27 = "jaxpr.abs"(%26) : (tensor<f32>) -> tensor<f32>
  %28 = "jaxpr.sqrt"(%27) : (tensor<f32>) -> tensor<f32>
  %29 = "jaxpr.neg"(%28) : (tensor<f32>) -> tensor<f32>
  %30 = "jaxpr.sin"(%29) : (tensor<f32>) -> tensor<f32>
  %31 = "jaxpr.mul"(%30, %five) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %32 = "jaxpr.cos"(%31) : (tensor<f32>) -> tensor<f32>
  %33 = "jaxpr.add"(%32, %half) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %34 = "jaxpr.exp"(%33) : (tensor<f32>) -> tensor<f32>
  %35 = "jaxpr.tanh"(%34) : (tensor<f32>) -> tensor<f32>
  %36 = "jaxpr.sub"(%35, %29) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %37 = "jaxpr.abs"(%36) : (tensor<f32>) -> tensor<f32>
  %38 = "jaxpr.sqrt"(%37) : (tensor<f32>) -> tensor<f32>
  %39 = "jaxpr.neg"(%38) : (tensor<f32>) -> tensor<f32>
  return %39 : tensor<f32>
}
