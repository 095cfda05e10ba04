// xla_metadata_value: The operand, with metadata for XLA attached.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, 2.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.xla_metadata_value"(%{{.*}}) {xla_metadata_kvs = {{\[\[}}"kind", "square"]]} : (tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.multiply %{{.*}}, %{{.*}} {mhlo.frontend_attributes = {kind = "square"}}
// EXEC: result: f32[2] = [1.0, 4.0]
func.func public @xla_metadata_value(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.mul"(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.xla_metadata_value"(%0) {xla_metadata_kvs = [["kind", "square"]]} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
