// layout_constraint: The operand, constrained to a memory layout.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.layout_constraint"(%{{.*}}) {layout = {Layout = {major_to_minor = array<i64: 1, 0>, sub_byte_element_size_in_bits = 0 : i64}}} : (tensor<1x2xf32>) -> tensor<1x2xf32>
// HLO: stablehlo.custom_call @LayoutConstraint(%{{.*}})
// EXEC: result: f32[1,2] = {{\[\[}}1.0, 2.0]]
func.func public @layout_constraint(%arg0: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %0 = "jaxpr.layout_constraint"(%arg0) {layout = {Layout = {major_to_minor = array<i64: 1, 0>, sub_byte_element_size_in_bits = 0 : i64}}} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}
