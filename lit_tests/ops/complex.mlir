// complex: The complex number x + iy, from its parts.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0], [3.0, -4.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.complex"(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>
// HLO: stablehlo.complex %{{.*}}, %{{.*}} : tensor<2xcomplex<f32>>
// EXEC: result: c64[2] = [(1+3j), (2-4j)]
func.func public @complex(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xcomplex<f32>> {
  %0 = "jaxpr.complex"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}
