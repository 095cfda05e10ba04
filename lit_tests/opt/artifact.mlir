// Artifacts and text contain large arrays, before passes and after passes.
// RUN: cd %S/../translate/Inputs && jaxmlir-translate --import-python functions:squares --args 'i32[]' --emit-artifact -o %t.jaxmlir
// RUN: jaxmlir-opt -O1 %t.jaxmlir --emit-artifact -o %t.O1 && jaxmlir-run %t.O1 --args 7 | FileCheck %s
// RUN: jaxmlir-opt -O1 %t.jaxmlir | jaxmlir-run --args 7 | FileCheck %s
// RUN: not jaxmlir-run %S/Inputs/named-constant.mlir --args 7 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: jaxmlir-opt --cse %s --emit-artifact | jaxmlir-run --args 7 | FileCheck %s
// RUN: not jaxmlir-opt %s --split-input-file --emit-artifact 2>&1 | FileCheck %s --check-prefix=SPLIT
// RUN: not jaxmlir-opt %s --jaxpr-legalize-to-stablehlo --emit-artifact 2>&1 | FileCheck %s --check-prefix=LOWERED

// CHECK: result: f32[] = 49.0
// TEXT-NOT: JAX has removed
// TEXT: error: 'jaxpr.constant' op cannot be lowered: constant "c0" has no value: as_text() gives only the names of arrays over 4 KiB; pass constants={...} to parse, or save the program as an artifact
// TEXT-NOT: JAX has removed
// SPLIT: --emit-artifact writes one module, but the input was split into many
// LOWERED: expected only what jaxmlir prints (ops of the jaxpr dialect in generic form
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %y = "jaxpr.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
// -----
