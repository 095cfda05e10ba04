// reduce_precision: x rounded to a float format of the given widths, kept in its own dtype.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.100000023841858, 3.299999952316284]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.reduce_precision"(%{{.*}}) {exponent_bits = 8 : i64, mantissa_bits = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.reduce_precision %{{.*}}, format = e8m3 : tensor<2xf32>
// EXEC: result: f32[2] = [1.125, 3.25]
func.func public @reduce_precision(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.reduce_precision"(%arg0) {exponent_bits = 8 : i64, mantissa_bits = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
