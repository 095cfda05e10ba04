// composite: Calls a function that a compiler may replace by its own op of that name and version.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.composite"(%{{.*}}) {call_jaxpr = @square, name = "my.square", version = 2 : i64} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.composite "my.square" %{{.*}}
// EXEC: result: f32[2] = [1.0, 4.0]
func.func public @composite(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.composite"(%arg0) {call_jaxpr = @square, name = "my.square", version = 2 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @square(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
