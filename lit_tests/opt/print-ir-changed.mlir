// RUN: jaxmlir-opt %s --cse --jaxpr-cse --symbol-dce --mlir-print-ir-after-all --mlir-print-ir-after-change 2>&1 | FileCheck %s --check-prefix=CHANGE
// RUN: not jaxmlir-opt %s --jaxpr-cse --jaxpr-grad=func=g --mlir-print-ir-after-failure 2>&1 | FileCheck %s --check-prefix=FAILURE

// The module is printed after passes that changed it, and after a pass that failed.

// CHANGE-NOT: IR Dump After {{CSE|Symbol}}
// CHANGE: IR Dump After JaxprCSE (jaxpr-cse)
// CHANGE-NOT: IR Dump After {{CSE|Symbol}}

// FAILURE-NOT: IR Dump After JaxprCSE
// FAILURE: IR Dump After JaxprGrad Failed (jaxpr-grad)
// FAILURE: func.func @f
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.add"(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
