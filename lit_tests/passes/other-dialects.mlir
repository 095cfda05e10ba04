// Ops of other dialects may have regions. A region may read values from outside, refer to functions,
// and be the only difference between two ops.

// RUN: jaxmlir-opt --jaxpr-dce %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-dedupe-functions %s | FileCheck %s --check-prefix=DEDUPE
// RUN: jaxmlir-opt -O2 %s -o %t.O2
// RUN: jaxmlir-run %s --args '2, 0.5, [1.0, 2.0, 4.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '2, 0.5, [1.0, 2.0, 4.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t.O2 --args '2, 0.5, [1.0, 2.0, 4.0]' | FileCheck %s --check-prefix=EXEC

// EXEC:      result[0]: f32[] = 1.6487212
// EXEC-NEXT: result[1]: f32[] = 7.0
// EXEC-NEXT: result[2]: f32[] = 4.0

// Only the loop reads %x.
// CHECK-LABEL: func.func public @main
// CHECK-NEXT:    stablehlo.constant
// CHECK-NEXT:    %[[X:.*]] = stablehlo.multiply
// CHECK:         stablehlo.while
// CHECK:           stablehlo.add %{{.*}}, %[[X]]

// @sums and @largest differ in a region only; @plus and @minus_minus are equal, so @plus replaces
// @minus_minus, in the loop's body too.
// DEDUPE:     call @sums
// DEDUPE:     call @largest
// DEDUPE:     call @plus
// DEDUPE-NOT: @minus_minus
func.func public @main(%n: tensor<i32>, %y: tensor<f32>, %xs: tensor<3xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %x = stablehlo.multiply %y, %y : tensor<f32>
  %0 = func.call @sums(%xs, %zero) : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  %1 = func.call @largest(%xs, %zero) : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  %2:2 = stablehlo.while(%i = %n, %s = %zero) : tensor<i32>, tensor<f32>
  cond {
    %3 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.compare GT, %i, %3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %4 : tensor<i1>
  } do {
    %3 = stablehlo.constant dense<-1> : tensor<i32>
    %4 = stablehlo.add %i, %3 : tensor<i32>
    %5 = func.call @plus(%s) : (tensor<f32>) -> tensor<f32>
    %6 = func.call @minus_minus(%5) : (tensor<f32>) -> tensor<f32>
    %7 = stablehlo.add %6, %x : tensor<f32>
    stablehlo.return %4, %7 : tensor<i32>, tensor<f32>
  }
  %8 = stablehlo.exponential %2#1 : tensor<f32>
  return %8, %0, %1 : tensor<f32>, tensor<f32>, tensor<f32>
}
func.func private @sums(%xs: tensor<3xf32>, %zero: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%xs init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @largest(%xs: tensor<3xf32>, %zero: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%xs init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @plus(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.negate %x : tensor<f32>
  %1 = stablehlo.negate %0 : tensor<f32>
  return %1 : tensor<f32>
}
func.func private @minus_minus(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.negate %x : tensor<f32>
  %1 = stablehlo.negate %0 : tensor<f32>
  return %1 : tensor<f32>
}
