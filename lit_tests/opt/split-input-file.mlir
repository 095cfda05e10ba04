// RUN: not jaxmlir-opt %s --split-input-file 2> %t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=ERR < %t.err
// RUN: not jaxmlir-opt %s 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: jaxmlir-opt %S/parse-print.mlir '--split-input-file=// ---' | FileCheck %S/parse-print.mlir

// An error in one piece does not affect the other pieces; line numbers are those of the whole file.

// CHECK:      func.func @f() {
// CHECK:      // -----
// CHECK-NOT:  @broken
// CHECK:      // -----
// CHECK:      func.func @f(%{{.*}}: f32) {
// WHOLE:      split-input-file.mlir:19:23: error: custom op 'func.nonsense' is unknown
func.func @f() {
  return
}
// -----
// ERR: split-input-file.mlir:19:{{[0-9]+}}: error: custom op 'func.nonsense' is unknown
func.func @broken() { func.nonsense }
// -----
func.func @f(%x: f32) {
  return
}
