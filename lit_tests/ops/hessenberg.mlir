// hessenberg: Upper Hessenberg form in LAPACK's packed form, and the reflectors' factors tau.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [4.0, 6.0, 7.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.hessenberg"(%{{.*}}) : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>)
// HLO: stablehlo.custom_call @lapack_sgehrd_ffi(%{{.*}})
// EXEC: result[0]: f32[3,3] = {{\[\[}}1.0, -3.{{[0-9]*}}, 0.{{[0-9]*}}],
// EXEC-NEXT: [-5.0, 11.{{[0-9]*}}, 0.{{[0-9]*}}],
// EXEC-NEXT: [0.5, -0.{{[0-9]*}}, -0.{{[0-9]*}}]]
// EXEC: result[1]: f32[2] = [1.6, 0.0]
func.func public @hessenberg(%arg0: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>) {
  %0:2 = "jaxpr.hessenberg"(%arg0) : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<3x3xf32>, tensor<2xf32>
}
