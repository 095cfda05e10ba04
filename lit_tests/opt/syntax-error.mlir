// RUN: not jaxmlir-opt %s 2>&1 | FileCheck %s
// RUN: not jaxmlir-opt < %s 2>&1 | FileCheck %s --check-prefix=STDIN

// CHECK:      {{.*}}syntax-error.mlir:10:20: error: use of undeclared SSA value name
// CHECK-NEXT: {{^}}  %y = "jaxpr.neg"(%x) : (f32) -> f32
// CHECK-NEXT: {{^}}                   ^
// STDIN: <stdin>:10:20: error: use of undeclared SSA value name
func.func public @f() -> f32 {
  // The next line is the wrong one.
  %y = "jaxpr.neg"(%x) : (f32) -> f32
  return %y : f32
}
