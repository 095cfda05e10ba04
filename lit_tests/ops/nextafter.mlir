// nextafter: The next float after x in the direction of y.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.0], [1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.nextafter"(%{{.*}}, %{{.*}}) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
// HLO: chlo.next_after %{{.*}}, %{{.*}} : tensor<1xf32>, tensor<1xf32> -> tensor<1xf32>
// EXEC: result: f32[1] = [1e-45]
func.func public @nextafter(%arg0: tensor<1xf32>, %arg1: tensor<1xf32>) -> tensor<1xf32> {
  %0 = "jaxpr.nextafter"(%arg0, %arg1) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
