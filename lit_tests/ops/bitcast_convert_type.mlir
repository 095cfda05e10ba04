// bitcast_convert_type: Reads the bits as another dtype; if the widths differ, a last dimension is
// added or dropped.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[1.0, -0.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.bitcast_convert_type"(%{{.*}}) {new_dtype = i32} : (tensor<2xf32>) -> tensor<2xi32>
// HLO: stablehlo.bitcast_convert %{{.*}} : (tensor<2xf32>) -> tensor<2xi32>
// EXEC: result: i32[2] = [1065353216, -2147483648]
func.func public @bitcast_convert_type(%arg0: tensor<2xf32>) -> tensor<2xi32> {
  %0 = "jaxpr.bitcast_convert_type"(%arg0) {new_dtype = i32} : (tensor<2xf32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
