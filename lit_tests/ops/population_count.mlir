// population_count: Number of bits of x that are set.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[7, -1]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.population_count"(%{{.*}}) : (tensor<2xi32>) -> tensor<2xi32>
// HLO: stablehlo.popcnt %{{.*}} : tensor<2xi32>
// EXEC: result: i32[2] = [3, 32]
func.func public @population_count(%arg0: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "jaxpr.population_count"(%arg0) : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
