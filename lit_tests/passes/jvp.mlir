// Forward mode: each op is followed by the ops that its JVP rule adds.
//
//   f(x, y, n) = (sin(x) y, n + n)    df = cos(x) dx y + sin(x) dy

// RUN: jaxmlir-opt --jaxpr-jvp %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.jvp --args '0.5, 2.0, 3, 1.0, 0.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-jvp=argnums=1 %s | FileCheck %s --check-prefix=SECOND

// The integer has no tangent: the function takes and returns none, as jaxpr.active says.
// CHECK:      func.func private @f.jvp(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>, %[[N:.*]]: tensor<i32>, %[[DX:.*]]: tensor<f32>, %[[DY:.*]]: tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<f32>) attributes {jaxpr.active = array<i1: true, false>} {
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[X]])
// CHECK-NEXT:   %[[COS:.*]] = "jaxpr.cos"(%[[X]])
// CHECK-NEXT:   %[[DSIN:.*]] = "jaxpr.mul"(%[[DX]], %[[COS]])
// CHECK-NEXT:   %[[F:.*]] = "jaxpr.mul"(%[[SIN]], %[[Y]])
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.mul"(%[[DSIN]], %[[Y]])
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.mul"(%[[SIN]], %[[DY]])
// CHECK-NEXT:   %[[DF:.*]] = "jaxpr.add_any"(%[[A]], %[[B]])
// CHECK-NEXT:   %[[M:.*]] = "jaxpr.add"(%[[N]], %[[N]])
// CHECK-NEXT:   return %[[F]], %[[M]], %[[DF]]

// EXEC:      result[0]: f32[] = 0.95885{{[0-9]*}}
// EXEC-NEXT: result[1]: i32[] = 6
// EXEC-NEXT: result[2]: f32[] = 1.75516{{[0-9]*}}

// Differentiated in y alone, the function copies the sine as it is.
// SECOND:     func.func private @f.jvp
// SECOND:       %[[SIN:.*]] = "jaxpr.sin"
// SECOND-NEXT:  "jaxpr.mul"(%[[SIN]], %arg1)
// SECOND-NEXT:  "jaxpr.mul"(%[[SIN]], %arg3)
// SECOND-NEXT:  "jaxpr.add"(%arg2, %arg2)
// SECOND-NEXT:  return
func.func public @f(%x: tensor<f32>, %y: tensor<f32>, %n: tensor<i32>) -> (tensor<f32>, tensor<i32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add"(%n, %n) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %1, %2 : tensor<f32>, tensor<i32>
}
