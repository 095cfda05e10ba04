// dimension_size: Size of one dimension of the operand, a scalar integer.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[1.0, 2.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.dimension_size"(%{{.*}}) {dimension = 1 : i64} : (tensor<1x2xf32>) -> tensor<i32, {weak_type}>
// HLO: stablehlo.get_dimension_size %{{.*}}, dim = 1 : (tensor<1x2xf32>) -> tensor<i32>
// EXEC: result: i32[] = 2
func.func public @dimension_size(%arg0: tensor<1x2xf32>) -> tensor<i32, {weak_type}> {
  %0 = "jaxpr.dimension_size"(%arg0) {dimension = 1 : i64} : (tensor<1x2xf32>) -> tensor<i32, {weak_type}>
  return %0 : tensor<i32, {weak_type}>
}
