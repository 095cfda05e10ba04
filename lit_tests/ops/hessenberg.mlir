// hessenberg: Upper Hessenberg form in LAPACK's packed form, and the reflectors' factors tau.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[5.0, 3.0, 4.0], [6.0, 3.0, 7.0], [5.0, 2.0, 1.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.hessenberg"(%{{.*}}) : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>)
// HLO: stablehlo.custom_call @lapack_sgehrd_ffi(%{{.*}})
// EXEC: result[0]: f32[3,3] = {{\[\[}}5.0, -4.865{{[0-9]*}}, 1.1523{{[0-9]*}}],
// EXEC-NEXT: [-7.8102{{[0-9]*}}, 6.6065{{[0-9]*}}, -2.3278{{[0-9]*}}],
// EXEC-NEXT: [0.3620{{[0-9]*}}, 2.6721{{[0-9]*}}, -2.6065{{[0-9]*}}]]
// EXEC: result[1]: f32[2] = [1.7682{{[0-9]*}}, 0.0]
func.func public @hessenberg(%arg0: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>) {
  %0:2 = "jaxpr.hessenberg"(%arg0) : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<3x3xf32>, tensor<2xf32>
}
