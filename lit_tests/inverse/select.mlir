// The predicate of the selection is known when the program runs. Each case is known where it was
// selected; the values that follow from it are known there too, and the parts are joined.
//
//   y = p ? exp(x) : 2 x        x = p ? log(y) : y / 2

// RUN: jaxmlir-opt --jaxpr-inverse='known=0 log-det=true' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --entry=f.inverse --args '[1.0, 4.0], [True, False]' | FileCheck %s --check-prefix=EXEC

// CHECK:     func.func private @f.inverse(%[[Y:.*]]: tensor<2xf32>, %[[P:.*]]: tensor<2xi1>) -> (tensor<2xf32>, tensor<f32>) {
// CHECK-DAG:   %[[LOG:.*]] = "jaxpr.log"(%[[Y]])
// CHECK-DAG:   %[[HALF:.*]] = "jaxpr.div"(%[[Y]],
// CHECK:       %[[X:.*]] = "jaxpr.select_n"(%[[P]], %[[HALF]], %[[LOG]])
// CHECK:       return %[[X]],

// EXEC:      result[0]: f32[2] = [0.0, 2.0]
// EXEC-NEXT: result[1]: f32[] = -0.6931{{[0-9]*}}
func.func public @f(%p: tensor<2xi1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.select_n"(%p, %1, %0) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
