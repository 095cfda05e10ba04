// The input is verified before any pass runs; with --verify=none its ops are not verified.
//
// RUN: not jaxmlir-opt %s 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: not jaxmlir-opt --cse %s 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: jaxmlir-opt --verify=none %s | FileCheck %s
// RUN: not jaxmlir-opt --verify=all %s 2>&1 | FileCheck %s --check-prefix=FLAG

// ERROR: verify.mlir:{{[0-9]+:[0-9]+}}: error: 'jaxpr.add' op: {{.*}}incompatible shapes
// ERROR: verify.mlir:{{[0-9]+:[0-9]+}}: error: 'jaxpr.foo' op: the installed JAX has no primitive "foo"
// CHECK: "jaxpr.add"
// CHECK: "jaxpr.foo"
// FLAG: --verify expects none, got 'all'

func.func public @f(%x: tensor<4xf32>, %y: tensor<3xf32>) -> tensor<4xf32> {

  %0 = "jaxpr.add"(%x, %y) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  %1 = "jaxpr.foo"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
