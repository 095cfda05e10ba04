// Linearization: @f.fwd computes the values and the residuals of the derivative, and @f.lin is the
// derivative as a linear function of the tangents.
//
//   f(x, y, n) = (sin(x) y, n + n)    residuals: cos(x), y, sin(x)

// RUN: jaxmlir-opt --jaxpr-linearize %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.fwd --args '0.5, 2.0, 3' | FileCheck %s --check-prefix=FWD
// RUN: jaxmlir-run %t --entry=f.lin --args '0.87758255, 2.0, 0.47942555, 1.0, 10.0' | FileCheck %s --check-prefix=LIN

// CHECK:      func.func private @f.fwd(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>, %[[N:.*]]: tensor<i32>) -> ({{.*}}) attributes {jaxpr.num_res = 3 : i64} {
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[X]])
// CHECK-NEXT:   %[[COS:.*]] = "jaxpr.cos"(%[[X]])
// CHECK-NEXT:   %[[F:.*]] = "jaxpr.mul"(%[[SIN]], %[[Y]])
// CHECK-NEXT:   %[[M:.*]] = "jaxpr.add"(%[[N]], %[[N]])
// CHECK-NEXT:   return %[[F]], %[[M]], %[[COS]], %[[Y]], %[[SIN]]

// CHECK:      func.func private @f.lin(%[[COS:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>, %[[SIN:.*]]: tensor<f32>, %[[DX:.*]]: tensor<f32>, %[[DY:.*]]: tensor<f32>) -> tensor<f32>
// CHECK-NEXT:   %[[DSIN:.*]] = "jaxpr.mul"(%[[DX]], %[[COS]])
// CHECK-NEXT:   %[[A:.*]] = "jaxpr.mul"(%[[DSIN]], %[[Y]])
// CHECK-NEXT:   %[[B:.*]] = "jaxpr.mul"(%[[SIN]], %[[DY]])
// CHECK-NEXT:   %[[DF:.*]] = "jaxpr.add_any"(%[[A]], %[[B]])
// CHECK-NEXT:   return %[[DF]]

// FWD:      result[0]: f32[] = 0.95885{{[0-9]*}}
// FWD-NEXT: result[1]: i32[] = 6
// FWD-NEXT: result[2]: f32[] = 0.87758{{[0-9]*}}
// FWD-NEXT: result[3]: f32[] = 2.0
// FWD-NEXT: result[4]: f32[] = 0.47942{{[0-9]*}}

// 2 cos(0.5) + 10 sin(0.5)
// LIN: result: f32[] = 6.54942{{[0-9]*}}
func.func public @f(%x: tensor<f32>, %y: tensor<f32>, %n: tensor<i32>) -> (tensor<f32>, tensor<i32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add"(%n, %n) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %1, %2 : tensor<f32>, tensor<i32>
}
