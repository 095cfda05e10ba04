// RUN: jaxmlir-opt --jaxpr-raise-stablehlo --jaxpr-verify %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %t --args '[[1.0, 3.0], [2.0, 2.0]], [1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// Functions of tuples become functions of the tuples' elements. An operand that the op broadcasts itself
// keeps only its rank, even if the module repeats it to the full shape.

// CHECK:      func.func public @main(%[[X:.*]]: tensor<2x2xf32>, %[[SCALE:.*]]: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
// CHECK:        %[[MAX:.*]] = "jaxpr.reduce_max"(%[[X]]) {axes = array<i64: 1>}
// CHECK:        %[[ROWS:.*]] = "jaxpr.broadcast_in_dim"(%[[MAX]]) {broadcast_dimensions = array<i64: 0>, shape = array<i64: 2, 1>}
// CHECK:        %[[SHIFTED:.*]] = "jaxpr.sub"(%[[X]], %[[ROWS]])
// CHECK:        return %[[SHIFTED]], %[[SCALE]]

// EXEC:      result[0]: f32[2,2] = {{\[\[}}-2.0, 0.0],
// EXEC-NEXT: [0.0, 0.0]]
// EXEC-NEXT: result[1]: f32[2] = [1.0, 2.0]
func.func public @main(%args: tuple<tensor<2x2xf32>, tensor<2xf32>>) -> tuple<tensor<2x2xf32>, tensor<2xf32>> {
  %x = stablehlo.get_tuple_element %args[0] : (tuple<tensor<2x2xf32>, tensor<2xf32>>) -> tensor<2x2xf32>
  %scale = stablehlo.get_tuple_element %args[1] : (tuple<tensor<2x2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<2x2xf32>
  %3 = stablehlo.tuple %2, %scale : tuple<tensor<2x2xf32>, tensor<2xf32>>
  return %3 : tuple<tensor<2x2xf32>, tensor<2xf32>>
}
