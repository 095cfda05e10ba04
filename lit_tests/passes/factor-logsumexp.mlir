// A log-sum-exp with a loop-invariant operand is the log of a product, if the operand's numbers are close enough.

// RUN: jaxmlir-opt --jaxpr-factor-logsumexp='min-iterations=3 min-elements=4 min-ratio=2 calls=inf' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-factor-logsumexp='min-iterations=3 min-elements=4 min-ratio=2 calls=inf' %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[0.0, 1.0], [0.5, 0.5]], [3.0, -1.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[[0.0, 1.0], [0.5, 0.5]], [3.0, -1.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %s --args '[[0.0, 1.0], [-inf, 0.5]], [3.0, -1.0]' | FileCheck %s --check-prefix=FAR
// RUN: jaxmlir-run %t --args '[[0.0, 1.0], [-inf, 0.5]], [3.0, -1.0]' | FileCheck %s --check-prefix=FAR
// RUN: jaxmlir-opt --jaxpr-factor-logsumexp='min-iterations=3 min-elements=4 min-ratio=2 calls=inf' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: factor-logsumexp.mlir:{{[0-9]+}}:9: remark: [jaxpr-factor-logsumexp] factored: 4 exponentials per iteration become a product
// REMARK-NOT: become a product

// A test of the loop-invariant operand selects one of two loops. A loop that is too short stays.
// EXEC: result[0]: f32[2] = [5.8707266, 6.303451]
// EXEC-NEXT: result[1]: f32[2] = [4.715899, 4.992227]
// FAR: result[0]: f32[2] = [3.0, 5.68588]
// FAR-NEXT: result[1]: f32[2] = [3.0, 4.980968]
// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[B:.*]]: tensor<2x2xf32>, %[[X:.*]]: tensor<2xf32>)
// CHECK:         %[[LEAST:.*]] = "jaxpr.reduce_min"
// CHECK-NEXT:    %[[MOST:.*]] = "jaxpr.constant"() {value = dense<-21.834137>
// CHECK-NEXT:    %[[NEAR:.*]] = "jaxpr.ge"(%[[LEAST]], %[[MOST]])
// CHECK-NEXT:    %[[INDEX:.*]] = "jaxpr.convert_element_type"(%[[NEAR]])
// CHECK-NEXT:    "jaxpr.cond"(%[[INDEX]], %[[B]], %[[X]]) {branches = [@far_apart, @near]}
// CHECK-NEXT:    "jaxpr.scan"(%[[B]], %[[X]]) {jaxpr = @step, length = 2 : i64
// CHECK-LABEL: func.func private @step(
// CHECK:         "jaxpr.exp"({{.*}}) : (tensor<2x2xf32>)
// CHECK-LABEL: func.func private @step_0
// CHECK:         "jaxpr.remat2"({{.*}}) {jaxpr = @exponentials, prevent_cse = false}
// CHECK-LABEL: func.func private @step_1
// CHECK-NOT:     "jaxpr.exp"({{.*}}) : (tensor<2x2xf32>)
// CHECK:         %[[EXP:.*]] = "jaxpr.exp"({{.*}}) : (tensor<2x1xf32>)
// CHECK-NEXT:    %[[V:.*]] = "jaxpr.reshape"(%[[EXP]])
// CHECK-NEXT:    "jaxpr.dot_general"(%[[V]], %arg{{.*}}precision = [{Precision = "HIGHEST"}, {Precision = "HIGHEST"}]
// CHECK-LABEL: func.func private @exponentials
// CHECK-NEXT:    %[[T:.*]] = "jaxpr.add"(%{{.*}}, %{{.*}})
// CHECK-NEXT:    %[[D:.*]] = "jaxpr.sub"(%[[T]], %{{.*}})
// CHECK-NEXT:    %[[E:.*]] = "jaxpr.exp"(%[[D]])
// CHECK-NEXT:    "jaxpr.reduce_sum"(%[[E]]) {axes = array<i64: 0>}
// CHECK-LABEL: func.func private @far_apart
// CHECK-NEXT:    "jaxpr.scan"({{.*}}) {jaxpr = @step_0, length = 3 : i64
// CHECK-LABEL: func.func private @near
// CHECK:         %[[E:.*]] = "jaxpr.exp"({{.*}}) : (tensor<2x2xf32>)
// CHECK-NEXT:    "jaxpr.scan"(%{{.*}}, %[[E]], %{{.*}}) {jaxpr = @step_1, length = 3 : i64
func.func public @main(%b: tensor<2x2xf32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.scan"(%b, %x) {jaxpr = @step, length = 3 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.scan"(%b, %x) {jaxpr = @step, length = 2 : i64, num_carry = 1 : i64, num_consts = 1 : i64} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
func.func private @step(%b: tensor<2x2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.broadcast_in_dim"(%x) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 2, 1>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %1 = "jaxpr.add"(%0, %b) : (tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = "jaxpr.reduce_max"(%1) {axes = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<2xf32>
  %3 = "jaxpr.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %4 = "jaxpr.max"(%3, %2) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = "jaxpr.is_finite"(%4) : (tensor<2xf32>) -> tensor<2xi1>
  %6 = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %7 = "jaxpr.broadcast_in_dim"(%6) {broadcast_dimensions = [], shape = array<i64: 2>} : (tensor<f32>) -> tensor<2xf32>
  %8 = "jaxpr.select_n"(%5, %7, %4) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %9 = "jaxpr.stop_gradient"(%8) : (tensor<2xf32>) -> tensor<2xf32>
  %10 = "jaxpr.broadcast_in_dim"(%9) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 1, 2>} : (tensor<2xf32>) -> tensor<1x2xf32>
  %11 = "jaxpr.sub"(%1, %10) : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %12 = "jaxpr.exp"(%11) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %13 = "jaxpr.reduce_sum"(%12) {axes = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<2xf32>
  %14 = "jaxpr.abs"(%13) : (tensor<2xf32>) -> tensor<2xf32>
  %15 = "jaxpr.log"(%14) : (tensor<2xf32>) -> tensor<2xf32>
  %16 = "jaxpr.add"(%15, %9) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %16 : tensor<2xf32>
}
