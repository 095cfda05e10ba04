// RUN: not jaxmlir-opt --split-input-file --jaxpr-raise-stablehlo %s 2>&1 | FileCheck %s

// What has no counterpart is said with its op and place.

// CHECK: errors.mlir:{{[0-9]+}}:8: error: 'other.op' op: there is no op of the dialect for it; expected ops of StableHLO, CHLO and func
// CHECK: error: {{.*}}tensor<?xf32> has sizes that are not known
// CHECK: errors.mlir:{{[0-9]+}}:8: error: 'stablehlo.custom_call' op: the custom call @xla_python_cpu_callback runs a Python function, which is in no module
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "other.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @xla_python_cpu_callback(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
