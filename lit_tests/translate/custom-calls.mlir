// RUN: jaxmlir-opt --emit-artifact %s -o %t.jaxmlir
// RUN: not jaxmlir-translate --to-stablehlo %t.jaxmlir 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: jaxmlir-translate --to-stablehlo --allow-custom-calls=other,my_function %t.jaxmlir | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-translate --to-jaxpr --allow-custom-calls=my_function %t.jaxmlir | FileCheck %s --check-prefix=JAXPR
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo --allow-custom-calls my_function %t.jaxmlir | FileCheck %s --check-prefix=HLO

// Calls of an artifact to code outside XLA have to be allowed.

// REFUSED: error: 'jaxpr.ffi_call' op: 'my_function' is not part of XLA
// HLO: stablehlo.custom_call @my_function(%{{.*}})
// JAXPR: target_name=my_function
func.func public @f(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.ffi_call"(%arg0) {attributes = [], input_layouts = [array<i64: 0>], output_layouts = [array<i64: 0>], result_avals = [tensor<2xf32>], target_name = "my_function"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
