// geqrf: QR factorisation in LAPACK's form: packed reflectors with R, and their factors tau.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[3.0, 1.0], [4.0, 2.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.geqrf"(%{{.*}}) : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
// HLO: stablehlo.custom_call @lapack_sgeqrf_ffi(%{{.*}})
// EXEC: result[0]: f32[2,2] = {{\[\[}}-5.0, -2.2],
// EXEC-NEXT: [0.5, 0.{{[0-9]*}}]]
// EXEC: result[1]: f32[2] = [1.6, 0.0]
func.func public @geqrf(%arg0: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>) {
  %0:2 = "jaxpr.geqrf"(%arg0) : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<2x2xf32>, tensor<2xf32>
}
