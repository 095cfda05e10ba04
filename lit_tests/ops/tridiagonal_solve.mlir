// tridiagonal_solve: The x with a tridiagonal system times x = b; operands (lower, diagonal, upper,
// b).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0.0, 1.0, 1.0], [2.0, 2.0, 2.0], [1.0, 1.0, 0.0], [[4.0], [8.0], [8.0]]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.tridiagonal_solve"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
// HLO: stablehlo.custom_call @lapack_sgtsv_ffi(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// EXEC: result: f32[3,1] = {{\[\[}}1.0],
// EXEC-NEXT: [1.{{[0-9]*}}],
// EXEC-NEXT: [3.{{[0-9]*}}]]
func.func public @tridiagonal_solve(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<3xf32>, %arg3: tensor<3x1xf32>) -> tensor<3x1xf32> {
  %0 = "jaxpr.tridiagonal_solve"(%arg0, %arg1, %arg2, %arg3) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}
