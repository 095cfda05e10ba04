// An artifact is one file with a program and its constants. Every tool reads it.
//
// RUN: jaxmlir-translate --emit-artifact %s -o %t.jaxmlir
// RUN: jaxmlir-opt %t.jaxmlir | FileCheck %s --check-prefix=OPT
// RUN: jaxmlir-run %t.jaxmlir --args 0.5 | FileCheck %s --check-prefix=VALUE
// RUN: jaxmlir-opt --jaxpr-jvp %t.jaxmlir | jaxmlir-run --entry=f.jvp --args '0.5, 1.0' \
// RUN:   | FileCheck %s --check-prefix=JVP
// RUN: jaxmlir-translate --describe %t.jaxmlir | FileCheck %s --check-prefix=DESCRIBE
// RUN: jaxmlir-translate --describe %s | FileCheck %s --check-prefix=MODULE
// RUN: not jaxmlir-translate --describe %S/errors.test 2>&1 | FileCheck %s --check-prefix=NONE

// OPT:      func.func public @f(%arg0: tensor<f32>) -> tensor<f32> {
// OPT-NEXT:   %0 = "jaxpr.custom_jvp_call_jaxpr"(%arg0)

// The function is x * x; the rule says that its derivative is 10.
// VALUE:    result: f32[] = 0.25
// JVP:      result[0]: f32[] = 0.25
// JVP-NEXT: result[1]: f32[] = 10.0

// DESCRIBE:      versions: artifact 1, dialect 0.1, made by jaxmlir
// DESCRIBE:      public functions:
// DESCRIBE-NEXT:   @f
// DESCRIBE-NEXT:     argument  tensor<f32>  4 bytes
// DESCRIBE-NEXT:     result  tensor<f32>  4 bytes
// DESCRIBE:      functions:
// DESCRIBE-NEXT:   3, with 5 ops
// DESCRIBE-NEXT: ops:
// DESCRIBE-NEXT:       3 mul
// DESCRIBE-NEXT:       1 custom_jvp_call_jaxpr
// DESCRIBE-NEXT:       1 constant
// DESCRIBE:      custom derivative rules:
// DESCRIBE-NEXT:   @square: jvp_jaxpr @rule
// DESCRIBE-NEXT: sources:
// DESCRIBE-NEXT:   {{.*}}artifact.mlir:

// MODULE:        artifact.mlir: {{[0-9]+}} bytes
// MODULE-NEXT:   public functions:
// MODULE-NEXT:     @f
// MODULE:        functions:
// MODULE-NEXT:     3, with 5 ops
// MODULE:        custom derivative rules:
// MODULE-NEXT:     @square: jvp_jaxpr @rule

// NONE: errors.test:1:{{[0-9]+}}: error:

func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @square, jvp_jaxpr = @rule} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

func.func private @square(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

func.func private @rule(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.constant"() {value = dense<1.000000e+01> : tensor<f32>} : () -> tensor<f32>
  %2 = "jaxpr.mul"(%1, %t) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %2 : tensor<f32>, tensor<f32>
}
