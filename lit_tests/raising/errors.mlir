// RUN: not jaxmlir-opt --split-input-file --jaxpr-raise-stablehlo %s 2>&1 | FileCheck %s

// An op without a counterpart is an error that names the op and its location.

// CHECK: errors.mlir:{{[0-9]+}}:8: error: 'other.op' op: the dialect has no op for it; expected ops of StableHLO, CHLO and func
// CHECK: errors.mlir:{{[0-9]+}}:8: error: 'stablehlo.dynamic_iota' op: its sizes are computed when the program runs; expected a constant, or sizes of arguments
// CHECK: errors.mlir:{{[0-9]+}}:8: error: 'stablehlo.custom_call' op: the custom call @xla_python_cpu_callback runs a Python function, which is not in the module
// CHECK: errors.mlir:{{[0-9]+}}:8: error: 'arith.addi' op: expected numbers, got tensor<4xi1>
// CHECK: errors.mlir:{{[0-9]+}}:1: error: 'func.func' op: expected the type of a tensor or token, got memref<4xf32>
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "other.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func public @main(%n: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @xla_python_cpu_callback(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func public @main(%x: tensor<4xi1>) -> tensor<4xi1> {
  %0 = arith.addi %x, %x : tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

func.func public @main(%x: memref<4xf32>) {
  return
}
