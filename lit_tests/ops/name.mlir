// name: The operand, under a name that checkpoint policies can ask for.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.name"(%{{.*}}) {name = "hidden"} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: return
// EXEC: result: f32[2] = [1.0, 2.0]
func.func public @name(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.name"(%arg0) {name = "hidden"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
