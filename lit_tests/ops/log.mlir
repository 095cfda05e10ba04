// log: Natural logarithm, log(x).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 10.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.log"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.log %{{.*}} : tensor<2xf32>
// EXEC: result: f32[2] = [0.0, 2.3025{{[0-9]*}}]
func.func public @log(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.log"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
