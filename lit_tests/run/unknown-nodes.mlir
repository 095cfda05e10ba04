// The tools need not know the classes of pytree nodes; an unknown class is passed on.

// RUN: jaxmlir-opt %s --jaxpr-verify --jaxpr-jvp | FileCheck %s
// RUN: jaxmlir-run %s --args '1.0, 2.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-translate %s --emit-artifact -o %t.jaxmlir
// RUN: jaxmlir-opt %t.jaxmlir | FileCheck %s
// RUN: jaxmlir-run %t.jaxmlir --args '1.0, 2.0' | FileCheck %s --check-prefix=EXEC
// RUN: not jaxmlir-opt --jaxpr-verify %S/Inputs/two-leaves.mlir 2>&1 | FileCheck %s --check-prefix=LEAVES

// CHECK: jaxpr.in_tree = {{\[\[}}{node = ["nowhere:Pair", {{\[}}{nowhere_param = "x"}], ["*", {namedtuple = ["nowhere:One", ["*"]]}]]}], {dict = []}]
// CHECK-SAME: jaxpr.out_tree = {namedtuple = ["nowhere:One", ["*"]]}
// EXEC: result[0]: f32[] = 3.0
// LEAVES: two-leaves.mlir:1:1: error: 'func.func' op attribute 'jaxpr.out_tree': expected a leaf for each of 1 result, got 2
func.func public @f(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> attributes {jaxpr.in_tree = [[{node = ["nowhere:Pair", [{nowhere_param = "x"}], ["*", {namedtuple = ["nowhere:One", ["*"]]}]]}], {dict = []}], jaxpr.out_tree = {namedtuple = ["nowhere:One", ["*"]]}} {
  %0 = "jaxpr.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
