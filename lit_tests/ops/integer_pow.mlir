// integer_pow: Power with a static integer exponent, x ** y.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, -3.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.integer_pow"(%{{.*}}) {y = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [8.0, -27.0]
func.func public @integer_pow(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.integer_pow"(%arg0) {y = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
