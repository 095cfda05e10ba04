// geqp3: geqrf with column pivoting; operands (a, initial pivots).

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[[3.0, 1.0], [4.0, 2.0]], [0, 0]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.geqp3"(%{{.*}}, %{{.*}}) : (tensor<2x2xf32>, tensor<2xi32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>)
// HLO: stablehlo.custom_call @lapack_sgeqp3_ffi(%{{.*}}, %{{.*}})
// EXEC: result[0]: f32[2,2] = {{\[\[}}-5.0, -2.2],
// EXEC-NEXT: [0.5, 0.{{[0-9]*}}]]
// EXEC: result[1]: i32[2] = [1, 2]
// EXEC: result[2]: f32[2] = [1.6, 0.0]
func.func public @geqp3(%arg0: tensor<2x2xf32>, %arg1: tensor<2xi32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>) {
  %0:3 = "jaxpr.geqp3"(%arg0, %arg1) : (tensor<2x2xf32>, tensor<2xi32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>
}
