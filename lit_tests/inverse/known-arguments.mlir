// If one operand of a binary op is known, the other operand follows from it and from the result.
//
//   z = x y + exp(x)        y = (z - exp(x)) / x

// RUN: jaxmlir-opt --jaxpr-inverse=argnums=1 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '5.0, 0.5' | FileCheck %s --check-prefix=EXEC

// The exponential of the known argument is computed as in the original program.
// CHECK:      func.func private @f.inverse(%[[Z:.*]]: tensor<f32>, %[[X:.*]]: tensor<f32>) -> tensor<f32> {
// CHECK-NEXT:   %[[EXP:.*]] = "jaxpr.exp"(%[[X]])
// CHECK-NEXT:   %[[XY:.*]] = "jaxpr.sub"(%[[Z]], %[[EXP]])
// CHECK-NEXT:   %[[Y:.*]] = "jaxpr.div"(%[[XY]], %[[X]])
// CHECK-NEXT:   return %[[Y]]

// (5 - exp(0.5)) / 0.5
// EXEC: result: f32[] = 6.7025{{[0-9]*}}
func.func public @f(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.exp"(%x) : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add"(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
