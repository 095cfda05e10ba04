// RUN: jaxmlir-opt --jaxpr-raise-stablehlo --jaxpr-verify %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --args '[[1.0, -2.0], [3.0, 4.0]], 2' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %t | FileCheck %s --check-prefix=BACK

// Ops become ops, known reductions become their primitives, a map the ops of its region, and resources
// constants; callees stay functions, and names stay.

// CHECK:      func.func public @main(%[[X:.*]]: tensor<2x2xf32>, %[[N:.*]]: tensor<i32>) -> tensor<2xf32>
// CHECK:        %[[POSITIVE:.*]] = "jaxpr.jit"(%[[X]]) {jaxpr = @positive, name = "positive"}
// CHECK:        %[[PRODUCT:.*]] = "jaxpr.dot_general"(%[[POSITIVE]], %[[X]]) {dimension_numbers = {{.*}}, precision = [{Precision = "HIGHEST"}, {Precision = "HIGHEST"}], preferred_element_type = f32}
// CHECK:        %[[SUM:.*]] = "jaxpr.reduce_sum"(%[[PRODUCT]]) {axes = array<i64: 1>}
// CHECK:        "jaxpr.convert_element_type"(%[[N]]) {new_dtype = f32}
// CHECK:        %[[WEIGHTS:.*]] = "jaxpr.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>}
// CHECK:        %[[SCALED:.*]] = "jaxpr.mul"(%[[SUM]],
// CHECK:        "jaxpr.mul"(%[[SCALED]], %[[WEIGHTS]])
// CHECK:      func.func private @positive(%[[Y:.*]]: tensor<2x2xf32>)
// CHECK:        "jaxpr.max"(%[[Y]],

// EXEC: result: f32[2] = [-2.0, 100.0]

// BACK:      stablehlo.dot_general {{.*}} precision = [HIGHEST, HIGHEST]
// BACK:      stablehlo.reduce
// BACK:      func.func private @positive
func.func public @main(%x: tensor<2x2xf32>, %n: tensor<i32>) -> tensor<2xf32> {
  %0 = call @positive(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<2xf32>
  %weights = stablehlo.constant dense_resource<weights> : tensor<2xf32>
  %5 = "stablehlo.map"(%2, %4, %weights) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %w: tensor<f32>):
    %6 = stablehlo.multiply %a, %b : tensor<f32>
    %7 = stablehlo.multiply %6, %w : tensor<f32>
    stablehlo.return %7 : tensor<f32>
  }) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %5 : tensor<2xf32>
}
func.func private @positive(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<2x2xf32>
  %0 = stablehlo.maximum %x, %zero : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

{-# dialect_resources: {builtin: {weights: "0x040000000000803F00000040"}} #-}
