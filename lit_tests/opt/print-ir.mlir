// RUN: jaxmlir-opt %s --cse --canonicalize --mlir-print-ir-after-all -o - 2>&1 | FileCheck %s --check-prefix=AFTER
// RUN: jaxmlir-opt %s --cse --canonicalize --mlir-print-ir-before-all 2>&1 | FileCheck %s --check-prefix=BEFORE
// RUN: jaxmlir-opt %s --cse --canonicalize --mlir-print-ir-before=canonicalize --mlir-print-ir-after=cse,symbol-dce 2>&1 | FileCheck %s --check-prefix=NAMED

// AFTER:     // -----// IR Dump After CSE (cse) //----- //
// AFTER:     func.func public @f
// AFTER:     // -----// IR Dump After Canonicalizer (canonicalize) //----- //
// AFTER-NOT: IR Dump

// BEFORE:     // -----// IR Dump Before CSE (cse) //----- //
// BEFORE:     // -----// IR Dump Before Canonicalizer (canonicalize) //----- //
// BEFORE-NOT: IR Dump

// NAMED-NOT: IR Dump Before CSE
// NAMED:     // -----// IR Dump After CSE (cse) //----- //
// NAMED:     // -----// IR Dump Before Canonicalizer (canonicalize) //----- //
// NAMED-NOT: IR Dump
func.func public @f() {
  return
}
