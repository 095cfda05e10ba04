// empty: An array whose elements are not defined.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO

// The elements are not defined.

// CHECK: "jaxpr.empty"() {dtype = {scalar_type = f32}, shape = array<i64: 2>} : () -> tensor<2xf32>
// HLO: stablehlo.constant dense<0.000000e+00> : tensor<f32>
// HLO: stablehlo.broadcast_in_dim %{{.*}}, dims = [] : (tensor<f32>) -> tensor<2xf32>
func.func public @empty() -> tensor<2xf32> {
  %0 = "jaxpr.empty"() {dtype = {scalar_type = f32}, shape = array<i64: 2>} : () -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
