// after_all: A token that comes after all of the operands.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.after_all"(%{{.*}}) : (!jaxpr.token) -> !jaxpr.token
// HLO: stablehlo.create_token : !stablehlo.token
// HLO: stablehlo.after_all %{{.*}} : !stablehlo.token
// EXEC: result: f32[2] = [1.0, 2.0]
func.func public @after_all(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.create_token"() : () -> !jaxpr.token
  %1 = "jaxpr.after_all"(%0) : (!jaxpr.token) -> !jaxpr.token
  return %arg0 : tensor<2xf32>
}
