// RUN: jaxmlir-opt %s --pass-pipeline='builtin.module(cse,func.func(canonicalize{max-iterations=3},cse))' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: jaxmlir-opt %s -cse --canonicalize='max-iterations=3 top-down=false' --jaxpr-verify --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=FLAGS
// RUN: jaxmlir-opt %s --chlo-legalize-to-stablehlo --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=IMPLICIT
// RUN: jaxmlir-opt %s --cse | FileCheck %s

// NESTED: Pass Manager with 3 passes:
// NESTED: builtin.module(cse,func.func(canonicalize{max-iterations=3}),func.func(cse))

// Each pass has a flag, for jaxmlir's and for MLIR's passes; passes run in the order of the flags.
// FLAGS: builtin.module(cse,canonicalize{max-iterations=3 top-down=false},jaxpr-verify)

// A pass on functions is nested in func.func automatically.
// IMPLICIT: builtin.module(func.func(chlo-legalize-to-stablehlo))

// CHECK-LABEL: @twice
// CHECK-COUNT-1: stablehlo.cosine
// CHECK-NOT: stablehlo.cosine
func.func public @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.cosine %x : tensor<2xf32>
  %1 = stablehlo.cosine %x : tensor<2xf32>
  %2 = stablehlo.add %0, %1 : tensor<2xf32>
  return %2 : tensor<2xf32>
}
