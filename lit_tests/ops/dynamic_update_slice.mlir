// dynamic_update_slice: x with a slice overwritten at run-time indices; operands (x, update,
// *indices).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0, 3.0, 4.0], [8.0, 9.0], 1' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.dynamic_update_slice"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
// HLO: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<i32>
// HLO: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<i32>
// EXEC: result: f32[4] = [1.0, 8.0, 9.0, 4.0]
func.func public @dynamic_update_slice(%arg0: tensor<4xf32>, %arg1: tensor<2xf32>, %arg2: tensor<i32>) -> tensor<4xf32> {
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %1 = "jaxpr.lt"(%arg2, %0) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %2 = "jaxpr.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  %3 = "jaxpr.add"(%arg2, %2) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %4 = "jaxpr.select_n"(%1, %arg2, %3) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
  %5 = "jaxpr.dynamic_update_slice"(%arg0, %arg1, %4) : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
  return %5 : tensor<4xf32>
}
