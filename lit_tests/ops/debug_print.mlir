// debug_print: Prints a format string with the operands in its fields.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.debug_print"(%{{.*}}) {fmt = "x = {x}", in_tree = {pytree = {{\[\[}}], {dict = {{\[\[}}"x", "*"]]}]}
// HLO: stablehlo.custom_call @xla_ffi_python_cpu_callback(%{{.*}})
// EXEC: result: f32[2] = [2.0, 3.0]
func.func public @debug_print(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  "jaxpr.debug_print"(%arg0) {fmt = "x = {x}", in_tree = {pytree = [[], {dict = [["x", "*"]]}]}, jaxpr.effects = [{DebugEffect = none}], np_printoptions = [["edgeitems", 3], ["threshold", 1000], ["floatmode", "maxprec"], ["precision", 8], ["suppress", false], ["linewidth", 75], ["nanstr", "nan"], ["infstr", "inf"], ["sign", "-"], ["formatter", none], ["legacy", false], ["override_repr", none]]} : (tensor<2xf32>) -> ()
  %0 = "jaxpr.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %1 = "jaxpr.add"(%arg0, %0) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
