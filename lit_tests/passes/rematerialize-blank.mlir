// The constant arrays that the backward pass writes into are created when it needs them, not at the start, where a compiler would create all of them.

// RUN: jaxmlir-opt --jaxpr-remat='memory-budget=0.7' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s --args '[0.5, 1.5, -1.0, 2.0], 1' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[0.5, 1.5, -1.0, 2.0], 1' | FileCheck %s --check-prefix=EXEC

// The derivative of x * sin(x)[i], four times over: the cotangent of each slice is written into zeros. The zero waits for the same value as the other recomputed ops.
// CHECK-LABEL: func.func public @main
// CHECK:         %[[ZERO:.*]] = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK-NEXT:    %[[BLANK:.*]] = "jaxpr.broadcast_in_dim"(%[[ZERO]])
// CHECK-NEXT:    "jaxpr.dynamic_update_slice"(%[[BLANK]],
// CHECK:         %[[CT:.*]] = "jaxpr.reshape"
// CHECK:         %[[WAIT:.*]]:2 = "jaxpr.jit"(%{{.*}}, %[[ZERO]], %[[CT]]) {{.*}}, name = "wait"}
// CHECK:         %[[LATE:.*]] = "jaxpr.broadcast_in_dim"(%[[WAIT]]#1)
// CHECK-NEXT:    "jaxpr.dynamic_update_slice"(%[[LATE]], %[[CT]],
// CHECK-NOT:     "jaxpr.dynamic_update_slice"(%[[BLANK]],

// EXEC:      result: f32[4] = [0.98820{{[0-9]*}}, 2.06647{{[0-9]*}}, 0.98820{{[0-9]*}}, 0.98820{{[0-9]*}}]
func.func public @main(%x: tensor<4xf32>, %i: tensor<i32>) -> tensor<4xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "jaxpr.cos"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %3 = "jaxpr.lt"(%i, %2) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %4 = "jaxpr.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  %5 = "jaxpr.add"(%i, %4) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %6 = "jaxpr.select_n"(%3, %i, %5) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
  %7 = "jaxpr.dynamic_slice"(%0, %6) {slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
  %8 = "jaxpr.mul"(%x, %7) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %9 = "jaxpr.sin"(%8) : (tensor<4xf32>) -> tensor<4xf32>
  %10 = "jaxpr.cos"(%8) : (tensor<4xf32>) -> tensor<4xf32>
  %11 = "jaxpr.dynamic_slice"(%9, %6) {slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
  %12 = "jaxpr.mul"(%8, %11) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %13 = "jaxpr.sin"(%12) : (tensor<4xf32>) -> tensor<4xf32>
  %14 = "jaxpr.cos"(%12) : (tensor<4xf32>) -> tensor<4xf32>
  %15 = "jaxpr.dynamic_slice"(%13, %6) {slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
  %16 = "jaxpr.mul"(%12, %15) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %17 = "jaxpr.sin"(%16) : (tensor<4xf32>) -> tensor<4xf32>
  %18 = "jaxpr.cos"(%16) : (tensor<4xf32>) -> tensor<4xf32>
  %19 = "jaxpr.dynamic_slice"(%17, %6) {slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
  %20 = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %21 = "jaxpr.broadcast_in_dim"(%20) {broadcast_dimensions = [], shape = array<i64: 4>} : (tensor<f32>) -> tensor<4xf32>
  %22 = "jaxpr.reduce_sum"(%16) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %23 = "jaxpr.reshape"(%22) {new_sizes = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %24 = "jaxpr.mul"(%21, %19) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %25 = "jaxpr.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %26 = "jaxpr.broadcast_in_dim"(%25) {broadcast_dimensions = [], shape = array<i64: 4>} : (tensor<f32>) -> tensor<4xf32>
  %27 = "jaxpr.dynamic_update_slice"(%26, %23, %6) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %28 = "jaxpr.mul"(%27, %18) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %29 = "jaxpr.add_any"(%24, %28) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %30 = "jaxpr.mul"(%12, %29) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %31 = "jaxpr.reduce_sum"(%30) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %32 = "jaxpr.reshape"(%31) {new_sizes = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %33 = "jaxpr.mul"(%29, %15) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %34 = "jaxpr.dynamic_update_slice"(%26, %32, %6) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %35 = "jaxpr.mul"(%34, %14) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %36 = "jaxpr.add_any"(%33, %35) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %37 = "jaxpr.mul"(%8, %36) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %38 = "jaxpr.reduce_sum"(%37) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %39 = "jaxpr.reshape"(%38) {new_sizes = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %40 = "jaxpr.mul"(%36, %11) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %41 = "jaxpr.dynamic_update_slice"(%26, %39, %6) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %42 = "jaxpr.mul"(%41, %10) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %43 = "jaxpr.add_any"(%40, %42) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %44 = "jaxpr.mul"(%x, %43) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %45 = "jaxpr.reduce_sum"(%44) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %46 = "jaxpr.reshape"(%45) {new_sizes = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %47 = "jaxpr.mul"(%43, %7) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %48 = "jaxpr.dynamic_update_slice"(%26, %46, %6) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %49 = "jaxpr.mul"(%48, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %50 = "jaxpr.add_any"(%47, %49) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %50 : tensor<4xf32>
}
