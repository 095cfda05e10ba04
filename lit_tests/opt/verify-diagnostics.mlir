// RUN: jaxmlir-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// All ways to write where a diagnostic is expected. Pieces without errors are printed.

// CHECK: func.func @good
func.func @good() {
  return
}

// -----

func.func @same_line(%x: f32) -> f32 {
  return %x : i32 // expected-error {{use of value '%x' expects different type than prior uses}}
}

// -----

func.func @next_line(%x: f32) -> i32 {
  // expected-error@+1 {{type of return operand 0 ('f32') doesn't match function result type}}
  return %x : f32
}

// -----

func.func @previous_line(%x: f32) -> i32 {
  return %x : f32
  // expected-error@-1 {{doesn't match function result type}}
}

// -----

// expected-note@below {{see existing symbol definition here}}
func.func @below() { return }
// expected-error@below {{redefinition of symbol named 'below'}}
func.func @below() { return }

// -----

func.func @above(%x: f32) -> i32 {
  return %x : f32
  // expected-error@above {{doesn't match function result type}}
}

// -----

func.func @regular_expression(%x: f32) -> i32 {
  // expected-error-re@+1 {{return operand {{[0-9]+}} ('f32') doesn't match}}
  return %x : f32
}
