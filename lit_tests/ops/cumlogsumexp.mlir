// cumlogsumexp: Running log of the sum of exponentials.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 3.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.cumlogsumexp"(%{{.*}}) {axis = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32>
// HLO: "stablehlo.reduce_window"(%{{.*}}, %{{.*}})
// HLO: stablehlo.maximum %{{.*}}, %{{.*}} : tensor<f32>
// HLO: stablehlo.subtract %{{.*}}, %{{.*}} : tensor<f32>
// EXEC: result: f32[3] = [1.0, 3.1269{{[0-9]*}}, 3.407{{[0-9]*}}]
func.func public @cumlogsumexp(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.cumlogsumexp"(%arg0) {axis = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
