// Remarks of the same kind are one line, which names the costliest op; with 'all', each remark is printed.

// RUN: jaxmlir-opt --jaxpr-cse --jaxpr-dce --remarks %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=RANKED
// RUN: jaxmlir-opt --jaxpr-cse --jaxpr-dce --remarks=all %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: jaxmlir-opt --jaxpr-cse --jaxpr-dce --remarks=dce %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=DCE

// RANKED:      remarks.mlir:{{[0-9]+}}:{{[0-9]+}}: remark: [jaxpr-cse] removed 'jaxpr.exp': computed before from the same operands (and 3 more of this kind)
// RANKED-NOT:  jaxpr.sin
// RANKED:      remark: [jaxpr-dce] removed 'jaxpr.neg'
// RANKED-NOT:  jaxpr.sin

// ALL-COUNT-4: remark: [jaxpr-cse] removed
// ALL:         remark: [jaxpr-dce] removed 'jaxpr.neg'

// DCE-NOT:     jaxpr-cse
// DCE:         remark: [jaxpr-dce] removed 'jaxpr.neg'
// DCE-NOT:     jaxpr-cse

func.func public @f(%x: tensor<3xf32>, %y: tensor<1000xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<1000xf32>, tensor<1000xf32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "jaxpr.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "jaxpr.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %3 = "jaxpr.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %4 = "jaxpr.exp"(%y) : (tensor<1000xf32>) -> tensor<1000xf32>
  %5 = "jaxpr.exp"(%y) : (tensor<1000xf32>) -> tensor<1000xf32>
  %6 = "jaxpr.neg"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<1000xf32>, tensor<1000xf32>
}
