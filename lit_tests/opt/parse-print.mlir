// RUN: jaxmlir-opt %s | FileCheck %s
// RUN: jaxmlir-opt < %s | FileCheck %s
// RUN: jaxmlir-opt - < %s | FileCheck %s
// RUN: jaxmlir-opt %s -o %t && FileCheck %s < %t
// RUN: jaxmlir-opt %s | jaxmlir-opt | FileCheck %s
// RUN: jaxmlir-opt --allow-unregistered-dialect -verify-each=0 %s | FileCheck %s

// Input comes from files or stdin, output goes to -o; the printed text parses to the same module.

// CHECK-LABEL: func.func public @f(
// CHECK-SAME:    %[[X:.*]]: tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:    %[[Y:.*]] = "jaxpr.neg"(%[[X]]) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:    return %[[Y]] : tensor<2xf32>
func.func public @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = "jaxpr.neg"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
