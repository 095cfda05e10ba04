// Flags of mlir-opt for reading the input and printing the output.

// RUN: jaxmlir-opt %s --split-input-file --output-split-marker='// ~~~' | FileCheck %s --check-prefix=MARKER
// RUN: jaxmlir-opt %s --split-input-file --verify-roundtrip | FileCheck %s --check-prefix=ROUNDTRIP
// RUN: not jaxmlir-opt %s --split-input-file --no-implicit-module 2>&1 | FileCheck %s --check-prefix=EXPLICIT
// RUN: jaxmlir-opt %s --split-input-file --mlir-pretty-debuginfo --mlir-disable-threading | FileCheck %s --check-prefix=PRETTY
// RUN: jaxmlir-opt %s --split-input-file --mlir-print-skip-regions | FileCheck %s --check-prefix=SKIP
// RUN: jaxmlir-opt %s --split-input-file --mlir-use-nameloc-as-prefix | FileCheck %s --check-prefix=NAMES
// RUN: echo 'module {}' | jaxmlir-opt --emit-bytecode --emit-bytecode-version=3 | jaxmlir-opt | FileCheck %s --check-prefix=BYTECODE
// RUN: not jaxmlir-opt %s --jaxpr-inverse --color 2>&1 | FileCheck %s --check-prefix=COLOR
// RUN: not jaxmlir-opt %s --jaxpr-inverse 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: not jaxmlir-opt %s --jaxpr-inverse --mlir-print-stacktrace-on-diagnostic 2>&1 | FileCheck %s --check-prefix=TRACE
// RUN: not jaxmlir-opt %s --jaxpr-inverse --mlir-disable-diagnostic-notes 2>&1 | FileCheck %s --check-prefix=NO-NOTES

// MARKER:       @f
// MARKER:       // ~~~
// MARKER:       @g
// ROUNDTRIP:    @f
// EXPLICIT:     error: expected one builtin.module op with --no-implicit-module, got 'func.func'
// EXPLICIT-NOT: error
// PRETTY:       "jaxpr.floor"(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32> "named"
// SKIP:         module {...}
// NAMES:        %named = "jaxpr.floor"
// BYTECODE:     module {
// COLOR:        {{.\[1;31m}}error:
// PLAIN:        printing.mlir: error:
// TRACE:        Traceback
// NO-NOTES:     error: 'jaxpr.floor'
// NO-NOTES-NOT: note:
func.func public @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.floor"(%x) : (tensor<3xf32>) -> tensor<3xf32> loc("named")
  return %0 : tensor<3xf32>
}

// -----

module {
  func.func public @g() {
    return
  }
}
