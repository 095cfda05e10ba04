// RUN: not jaxmlir-opt %s --split-input-file --verify-diagnostics 2>&1 | FileCheck %s

// CHECK: unmet.mlir:4:4: error: expected error "no such thing" was not produced
// expected-error {{no such thing}}
func.func @good() {
  return
}

// -----

// CHECK: unmet.mlir:13:3: error: unexpected error: type of return operand 0
func.func @bad(%x: f32) -> i32 {
  return %x : f32
}

// -----

// The text matches, but the severity does not.
// CHECK: unmet.mlir:23:3: error: unexpected error: type of return operand 0
// CHECK: unmet.mlir:22:6: error: expected warning "type of return" was not produced
func.func @severity(%x: f32) -> i32 {
  // expected-warning@+1 {{type of return}}
  return %x : f32
}
