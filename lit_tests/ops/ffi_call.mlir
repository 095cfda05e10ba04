// ffi_call: Calls a registered foreign function.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO

// Nobody has registered a function of that name.

// CHECK: "jaxpr.ffi_call"(%{{.*}}) {attributes = {{\[\[}}"scale", {scalar = dense<2> : tensor<i64>}]], input_layouts = [array<i64: 0>], output_layouts = [array<i64: 0>], result_avals = [tensor<2xf32>], target_name = "my_function"} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.custom_call @my_function(%{{.*}})
func.func public @ffi_call(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.ffi_call"(%arg0) {attributes = [["scale", {scalar = dense<2> : tensor<i64>}]], input_layouts = [array<i64: 0>], output_layouts = [array<i64: 0>], result_avals = [tensor<2xf32>], target_name = "my_function"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
