// RUN: jaxmlir-opt %s --emit-bytecode -o %t.mlirbc
// RUN: jaxmlir-opt %t.mlirbc | FileCheck %s
// RUN: jaxmlir-opt - < %t.mlirbc | FileCheck %s
// RUN: jaxmlir-opt %s --emit-bytecode | jaxmlir-opt | FileCheck %s
// RUN: jaxmlir-opt %t.mlirbc --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC
// RUN: %python -c "data = open(r'%t.mlirbc', 'rb').read(); open(r'%t.cut', 'wb').write(data[:60])"
// RUN: not jaxmlir-opt %t.cut 2>&1 | FileCheck %s --check-prefix=CUT
// RUN: %python -c "open(r'%t.binary', 'wb').write(bytes(range(128, 256)))"
// RUN: not jaxmlir-opt %t.binary 2>&1 | FileCheck %s --check-prefix=BINARY
// RUN: not jaxmlir-opt %s --split-input-file --emit-bytecode 2>&1 | FileCheck %s --check-prefix=SPLIT

// CHECK: func.func public @f(
// CHECK: "jaxpr.neg"(%{{.*}}) : (tensor<f32>) -> tensor<f32>
// LOC: "jaxpr.neg"{{.*}} loc(#[[LOC:.*]])
// LOC: #[[LOC]] = loc("user.py":3:4)
// CUT: cut: error: {{.*}} is corrupted MLIR bytecode: attempting to parse
// BINARY: binary: error: {{.*}} is neither MLIR bytecode {{.*}} nor text: byte 0 is not UTF-8
// SPLIT: --emit-bytecode writes one module, but the input was split into many
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %y = "jaxpr.neg"(%x) : (tensor<f32>) -> tensor<f32> loc("user.py":3:4)
  return %y : tensor<f32>
}
// -----
