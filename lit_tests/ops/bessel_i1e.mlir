// bessel_i1e: Scaled modified Bessel function of order 1, exp(-|x|) I1(x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 1.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bessel_i1e"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: chlo.bessel_i1e %{{.*}} : tensor<2xf32> -> tensor<2xf32>
// EXEC: result: f32[2] = [0.15642{{[0-9]*}}, 0.2190{{[0-9]*}}]
func.func public @bessel_i1e(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.bessel_i1e"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
