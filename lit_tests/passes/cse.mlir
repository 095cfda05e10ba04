// Common subexpressions: the same op on the same operands is computed once.

// RUN: jaxmlir-opt --jaxpr-cse %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-cse %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '2.0, 3.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '2.0, 3.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-cse --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// y x = x y, so the two sines are equal; x - y is not y - x. Equal constants are merged, but 0 and -0
// are not equal. The two barriers are intentional and stay two.
// CHECK:      func.func public @main(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>)
// CHECK-NEXT:   %[[XY:.*]] = "jaxpr.mul"(%[[X]], %[[Y]])
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[XY]])
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.add"(%[[SIN]], %[[SIN]])
// CHECK-NEXT:   %[[D:.*]] = "jaxpr.sub"(%[[X]], %[[Y]])
// CHECK-NEXT:   %[[E:.*]] = "jaxpr.sub"(%[[Y]], %[[X]])
// CHECK-NEXT:   %[[Z:.*]] = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK-NEXT:   %[[N:.*]] = "jaxpr.constant"() {value = dense<-0.000000e+00> : tensor<f32>}
// CHECK-NEXT:   %[[ZZ:.*]] = "jaxpr.add"(%[[Z]], %[[Z]])
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.optimization_barrier"(%[[X]])
// CHECK-NEXT:   %[[C:.*]] = "jaxpr.optimization_barrier"(%[[X]])
// CHECK-NEXT:   return %[[SUM]], %[[D]], %[[E]], %[[ZZ]], %[[N]], %[[B]], %[[C]]

// EXEC:      result[0]: f32[] = -0.558831{{[0-9]*}}
// EXEC-NEXT: result[1]: f32[] = -1.0
// EXEC-NEXT: result[2]: f32[] = 1.0
// EXEC-NEXT: result[3]: f32[] = 0.0
// EXEC-NEXT: result[4]: f32[] = -0.0

// REMARK: cse.mlir:{{[0-9]+}}:8: remark: [jaxpr-cse] removed 'jaxpr.mul': computed before from the same operands
func.func public @main(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.mul"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.sin"(%0) : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.mul"(%y, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = "jaxpr.sin"(%2) : (tensor<f32>) -> tensor<f32>
  %4 = "jaxpr.add"(%1, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %5 = "jaxpr.sub"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %6 = "jaxpr.sub"(%y, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %7 = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %8 = "jaxpr.constant"() {value = dense<-0.0> : tensor<f32>} : () -> tensor<f32>
  %9 = "jaxpr.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %10 = "jaxpr.add"(%7, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %11 = "jaxpr.optimization_barrier"(%x) : (tensor<f32>) -> tensor<f32>
  %12 = "jaxpr.optimization_barrier"(%x) : (tensor<f32>) -> tensor<f32>
  return %4, %5, %6, %10, %8, %11, %12 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
