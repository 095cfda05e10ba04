// The addresses of LAPACK's functions are loaded before a module that calls them runs.

// RUN: jaxmlir-run %s --args '[[4, 2], [2, 10]]' | FileCheck %s
// RUN: jaxmlir-translate --stablehlo-to-jaxpr %s | jaxmlir-translate --to-stablehlo | jaxmlir-run --args '[[4, 2], [2, 10]]' | FileCheck %s

// CHECK: result: f32[2,2] = {{.}}[2.0,
// CHECK-NEXT: [1.0, 3.0]]
func.func public @cholesky(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {backend_config = "", mhlo.backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
  return %0#0 : tensor<2x2xf32>
}
