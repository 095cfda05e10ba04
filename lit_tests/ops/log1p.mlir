// log1p: log(1 + x), accurate near 0.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[9.999999974752427e-07, 1.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.log1p"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.log_plus_one %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [9.{{[0-9]*}}e-07, 0.69314{{[0-9]*}}]
func.func public @log1p(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.log1p"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
