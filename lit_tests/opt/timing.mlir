// RUN: jaxmlir-opt %s --cse --canonicalize --mlir-timing 2>&1 | FileCheck %s

// CHECK: ... Execution time report ...
// CHECK: Total Execution Time: {{[0-9.]+}} seconds
// CHECK: ----Wall Time----  ----Name----
// CHECK: %)  Parser
// CHECK: %)  CSE
// CHECK: %)  Canonicalizer
// CHECK: %)  Output
// CHECK: %)  Rest
// CHECK: (100.0%)  Total
func.func public @f() {
  return
}
