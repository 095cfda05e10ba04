// The passes of the levels leave a module of StableHLO as it is; a warning says how to raise it first.

// RUN: jaxmlir-opt -O2 %s 2>&1 | FileCheck %s --check-prefix=WARNED
// RUN: jaxmlir-opt --jaxpr-cse %s 2>&1 | FileCheck %s --check-prefix=WARNED
// RUN: jaxmlir-opt --jaxpr-raise-stablehlo -O2 %s 2>&1 | FileCheck %s --check-prefix=RAISED
// RUN: jaxmlir-opt -O0 --cse --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=PLAIN

// WARNED: stablehlo.mlir:[[# @LINE + 12]]:8: warning: 'stablehlo.sine' op: the passes of -O1 and -O2 are for ops of the jaxpr dialect; --jaxpr-raise-stablehlo, before them, raises this one
// WARNED: ^
// WARNED: %0 = stablehlo.sine
// WARNED-NOT: warning
// RAISED-NOT: warning
// RAISED: jaxpr.sin
// RAISED-NOT: warning
// PLAIN-NOT: warning
// PLAIN: stablehlo.sine
// PLAIN-NOT: warning

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
