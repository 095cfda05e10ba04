// select_and_scatter: Combines each source element, by scatter_jaxpr, with the element that
// select_jaxpr selects in its window; operands (operand, source, initial value).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1, 5, 2, 4], [10, 20]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.select_and_scatter"(%{{.*}}, %{{.*}}, %{{.*}}) {padding = [array<i64: 0, 0>], scatter_jaxpr = @add, select_jaxpr = @ge, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
// HLO: "stablehlo.select_and_scatter"(%{{.*}}, %{{.*}}, %{{.*}})
// HLO: stablehlo.compare GE, %{{.*}}, %{{.*}}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// HLO: stablehlo.add %{{.*}}, %{{.*}} : tensor<i32>
// EXEC: result: i32[4] = [0, 10, 0, 20]
func.func public @select_and_scatter(%arg0: tensor<4xi32>, %arg1: tensor<2xi32>) -> tensor<4xi32> {
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %1 = "jaxpr.select_and_scatter"(%arg0, %arg1, %0) {padding = [array<i64: 0, 0>], scatter_jaxpr = @add, select_jaxpr = @ge, window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
  return %1 : tensor<4xi32>
}
func.func private @ge(%arg0: tensor<i32>, %arg1: tensor<i32>) -> tensor<i1> {
  %0 = "jaxpr.ge"(%arg0, %arg1) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @add(%arg0: tensor<i32>, %arg1: tensor<i32>) -> tensor<i32> {
  %0 = "jaxpr.add"(%arg0, %arg1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}
