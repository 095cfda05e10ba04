// Reverse mode: the linearization (@f.fwd), and the transpose of its linear function (@f.bwd).
//
//   f(x, y, n) = (sin(x) y, n + n)    ct -> (cos(x) y ct, sin(x) ct)

// RUN: jaxmlir-opt --jaxpr-vjp %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.bwd --args '0.87758255, 2.0, 0.47942555, 10.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func private @f.fwd
// CHECK:        return %{{.*}}, %{{.*}}, %[[COS:.*]], %[[Y:.*]], %[[SIN:.*]] :
// CHECK:      func.func private @f.bwd(%[[COS:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>, %[[SIN:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK-NEXT:   %[[CTY:.*]] = "jaxpr.mul"(%[[SIN]], %[[CT]])
// CHECK-NEXT:   %[[CTSIN:.*]] = "jaxpr.mul"(%[[CT]], %[[Y]])
// CHECK-NEXT:   %[[CTX:.*]] = "jaxpr.mul"(%[[CTSIN]], %[[COS]])
// CHECK-NEXT:   return %[[CTX]], %[[CTY]]

// 10 cos(0.5) 2 and 10 sin(0.5)
// EXEC:      result[0]: f32[] = 17.55165{{[0-9]*}}
// EXEC-NEXT: result[1]: f32[] = 4.79425{{[0-9]*}}
func.func public @f(%x: tensor<f32>, %y: tensor<f32>, %n: tensor<i32>) -> (tensor<f32>, tensor<i32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add"(%n, %n) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %1, %2 : tensor<f32>, tensor<i32>
}
