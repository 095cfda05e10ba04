// RUN: jaxmlir-opt %s --mlir-elide-elementsattrs-if-larger=2 | FileCheck %s --check-prefix=ELIDE
// RUN: jaxmlir-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: not jaxmlir-opt %s --mlir-elide-elementsattrs-if-larger=two 2>&1 | FileCheck %s --check-prefix=INTEGER

// ELIDE: dense_resource<__elided__> : tensor<3xf32>
// ELIDE: dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// GENERIC: "func.func"() <{function_type = () -> (tensor<3xf32>, tensor<2xf32>)
// INTEGER: --mlir-elide-elementsattrs-if-larger expects an integer, got 'two'
func.func public @f() -> (tensor<3xf32>, tensor<2xf32>) {
  %0 = "jaxpr.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %1 = "jaxpr.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  return %0, %1 : tensor<3xf32>, tensor<2xf32>
}
