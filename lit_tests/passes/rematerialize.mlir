// Rematerialization: for its derivative, a loop stores the values that are cheapest to store, and recomputes the others.

// RUN: jaxmlir-opt --jaxpr-remat=calls=inf %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s --args '[1.6,2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[1.6,2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-remat=calls=inf --remarks=all %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: jaxmlir-opt --jaxpr-remat='memory-budget=0.01' %s -o %t
// RUN: FileCheck %s --check-prefix=SEGMENTS < %t
// RUN: jaxmlir-run %t --args '[1.6,2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: not jaxmlir-opt --jaxpr-remat='memory-budget=-1' %s 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// x <- x sin(x), nine times: d(x sin x) = (sin x + x cos x) dx. The sine and the cosine follow from x, so only x is stored.
// CHECK:      func.func public @main(%[[X:.*]]: tensor<2xf32>)
// CHECK:        %[[FWD:.*]]:2 = "jaxpr.scan"(%[[X]]) {jaxpr = @[[STEP:.*]], length = 9
// CHECK:        %[[BWD:.*]] = "jaxpr.scan"(%{{.*}}, %[[FWD]]#1) {jaxpr = @[[BACK:.*]], length = 9
// CHECK-SAME:     reverse = true
// CHECK-NEXT:   return %[[BWD]]
// CHECK:      func.func private @[[STEP]](%[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[X]])
// CHECK-NEXT:   %[[Y:.*]] = "jaxpr.mul"(%[[X]], %[[SIN]])
// CHECK-NEXT:   return %[[Y]], %[[X]]
// CHECK:      func.func private @[[BACK]](%[[CT:.*]]: tensor<2xf32>, %[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[X]])
// CHECK-NEXT:   %[[COS:.*]] = "jaxpr.cos"(%[[X]])
// CHECK-NEXT:   "jaxpr.mul"(%[[CT]], %[[SIN]])
// CHECK-NEXT:   "jaxpr.mul"(%[[CT]], %[[X]])

// With a hundredth of the memory, x is stored at the start of each of three segments, and the segments are run again.
// SEGMENTS:      func.func public @main(%[[X:.*]]: tensor<2xf32>)
// SEGMENTS:        %[[FWD:.*]]:2 = "jaxpr.scan"(%[[X]]) {jaxpr = @{{.*}}, length = 3
// SEGMENTS-SAME:     -> (tensor<2xf32>, tensor<3x2xf32>)
// SEGMENTS:        "jaxpr.scan"(%{{.*}}, %[[FWD]]#1) {jaxpr = @[[BACK:.*]], length = 3
// SEGMENTS:      func.func private @[[BACK]](
// SEGMENTS-NEXT:   %[[AGAIN:.*]]:2 = "jaxpr.scan"(%{{.*}}) {jaxpr = @{{.*}}, length = 3
// SEGMENTS-NEXT:   "jaxpr.scan"(%{{.*}}, %[[AGAIN]]#1) {jaxpr = @{{.*}}, length = 3

// EXEC: result: f32[2] = [0.67277{{[0-9]+}}, 0.0062650{{[0-9]+}}]

// REMARK: rematerialize.mlir:{{[0-9]+}}:10: remark: [jaxpr-remat] stores 72 bytes for 9 iterations instead of 216 bytes: 1 value, not 3, per iteration; an iteration recomputes 1 op, about 4 ns

// NEGATIVE: error: option 'memory-budget' of pass 'jaxpr-remat' expects a fraction of what the program takes, above 0 and up to 1, or at least 2 bytes, got -1.0
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y:4 = "jaxpr.scan"(%x) {jaxpr = @step, length = 9 : i64, num_carry = 1 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<9x2xf32>)
  %one = "jaxpr.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %ct = "jaxpr.scan"(%one, %y#1, %y#2, %y#3) {jaxpr = @back, length = 9 : i64, num_carry = 1 : i64, reverse = true} : (tensor<2xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<9x2xf32>) -> tensor<2xf32>
  return %ct : tensor<2xf32>
}
func.func private @step(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %sin = "jaxpr.sin"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %cos = "jaxpr.cos"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %y = "jaxpr.mul"(%x, %sin) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y, %x, %sin, %cos : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func private @back(%ct: tensor<2xf32>, %x: tensor<2xf32>, %sin: tensor<2xf32>, %cos: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%ct, %sin) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.mul"(%ct, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.mul"(%1, %cos) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "jaxpr.add"(%0, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}
