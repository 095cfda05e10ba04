// A call of a Python function of another process would end this process.

// RUN: not jaxmlir-run %s --args 1.0 2>&1 | FileCheck %s

// CHECK: callbacks.mlir:[[# @LINE + 2]]:8: error: 'stablehlo.custom_call' op calls a Python function (xla_ffi_python_cpu_callback), which only the process that lowered the program can do
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {backend_config = "", mhlo.backend_config = {index = 0 : ui64}, operand_layouts = [dense<> : tensor<0xindex>], result_layouts = [dense<> : tensor<0xindex>]} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
