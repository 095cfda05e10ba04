// spsolve: The x with A x = b, for a CSR matrix A.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[2.0, 1.0, 4.0], [0, 0, 1], [0, 1, 3], [4.0, 10.0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.spsolve"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {reorder = 1 : i64, tol = 9.9999999999999995E-7 : f64} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<2xf32>) -> tensor<2xf32>
// HLO: stablehlo.custom_call @xla_ffi_python_cpu_callback(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// EXEC: result: f32[2] = [2.0, 2.0]
func.func public @spsolve(%arg0: tensor<3xf32>, %arg1: tensor<3xi32>, %arg2: tensor<3xi32>, %arg3: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.spsolve"(%arg0, %arg1, %arg2, %arg3) {reorder = 1 : i64, tol = 9.9999999999999995E-7 : f64} : (tensor<3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
