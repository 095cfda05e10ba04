// is_finite: Whether x is neither infinite nor NaN.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 1e999]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.is_finite"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xi1>
// HLO: stablehlo.is_finite %{{.*}} : (tensor<2xf32>) -> tensor<2xi1>
// EXEC: result: bool[2] = [True, False]
func.func public @is_finite(%arg0: tensor<2xf32>) -> tensor<2xi1> {
  %0 = "jaxpr.is_finite"(%arg0) : (tensor<2xf32>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}
