// bessel_i0e: Scaled modified Bessel function of order 0, exp(-|x|) I0(x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.5, 1.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bessel_i0e"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.abs %{{.*}} : tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// HLO: stablehlo.subtract %{{.*}}, %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [0.64503{{[0-9]*}}, 0.36743{{[0-9]*}}]
func.func public @bessel_i0e(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.bessel_i0e"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
