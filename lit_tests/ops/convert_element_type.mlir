// convert_element_type: Converts to another dtype.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.5, -2.5]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.convert_element_type"(%{{.*}}) {new_dtype = i32} : (tensor<2xf32>) -> tensor<2xi32>
// HLO: stablehlo.convert %{{.*}} : (tensor<2xf32>) -> tensor<2xi32>
// EXEC: result: i32[2] = [1, -2]
func.func public @convert_element_type(%arg0: tensor<2xf32>) -> tensor<2xi32> {
  %0 = "jaxpr.convert_element_type"(%arg0) {new_dtype = i32} : (tensor<2xf32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
