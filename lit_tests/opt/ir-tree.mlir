// Options write the IR before and after passes to files, and print statistics and times.

// RUN: rm -rf %t && jaxmlir-opt %s --jaxpr-dce --cse --mlir-print-ir-before=cse --mlir-print-ir-after-all --mlir-print-ir-module-scope --mlir-print-ir-tree-dir=%t -o /dev/null 2>&1 | FileCheck %s --allow-empty --check-prefix=SILENT
// RUN: ls %t/builtin_module_no-symbol-name | FileCheck %s --check-prefix=FILES
// RUN: FileCheck %s --check-prefix=FIRST < %t/builtin_module_no-symbol-name/0_jaxpr-dce.mlir
// RUN: not jaxmlir-opt %s --mlir-print-ir-tree-dir=%t 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: jaxmlir-opt %s --jaxpr-dce --cse --mlir-pass-statistics -o /dev/null 2>&1 | FileCheck %s --check-prefix=STATISTICS
// RUN: jaxmlir-opt %s --jaxpr-dce --cse --mlir-pass-statistics --mlir-pass-statistics-display=list -o /dev/null 2>&1 | FileCheck %s --check-prefix=BY-NAME
// RUN: not jaxmlir-opt %s --mlir-pass-statistics-display=tree 2>&1 | FileCheck %s --check-prefix=CHOICE
// RUN: jaxmlir-opt %s --cse --mlir-timing --mlir-timing-display=list -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIMES
// RUN: jaxmlir-opt %s --cse --mlir-timing --mlir-output-format=json -o /dev/null 2>&1 | %python -m json.tool | FileCheck %s --check-prefix=JSON

// SILENT-NOT:  IR Dump
// FILES:       0_jaxpr-dce.mlir
// FILES-NEXT:  1_before_cse.mlir
// FILES-NEXT:  2_cse.mlir
// FIRST:       // -----// IR Dump After JaxprDCE (jaxpr-dce) //----- //
// FIRST-NEXT:  module {
// FIRST-NOT:   jaxpr.neg
// ALONE:       --mlir-print-ir-tree-dir requires one of --mlir-print-ir-before
// STATISTICS:  ... Pass statistics report ...
// STATISTICS:  JaxprDCE
// STATISTICS:  (S)      1 ops-removed
// STATISTICS:  CSE
// BY-NAME:     CSE
// BY-NAME:     JaxprDCE
// CHOICE:      --mlir-pass-statistics-display expects pipeline|list, got 'tree'
// TIMES:       ----Wall Time----
// TIMES:       Total
// JSON:        "wall": {
// JSON:        "duration":
// JSON:        "name": "Total"
func.func public @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "jaxpr.neg"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
