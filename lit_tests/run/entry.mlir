// RUN: jaxmlir-run %s --entry=double --args 3 | FileCheck %s --check-prefix=DOUBLE
// RUN: jaxmlir-run %s --entry triple --args 3 | FileCheck %s --check-prefix=TRIPLE
// RUN: not jaxmlir-run %s --args 3 2>&1 | FileCheck %s --check-prefix=WHICH
// RUN: not jaxmlir-run %s --entry=double 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not jaxmlir-opt --jaxpr-legalize-to-stablehlo %s 2>&1 | FileCheck %s --check-prefix=LOWER
// RUN: jaxmlir-opt --symbol-privatize=exclude=double --jaxpr-legalize-to-stablehlo %s | jaxmlir-run --args 3 | FileCheck %s --check-prefix=DOUBLE
// RUN: not jaxmlir-opt --jaxpr-grad %s 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: jaxmlir-opt --jaxpr-grad=func=triple %s | jaxmlir-run --entry=triple.grad --args 3 | FileCheck %s --check-prefix=GRAD
// RUN: not jaxmlir-translate --to-jaxpr %s 2>&1 | FileCheck %s --check-prefix=LOWER
// RUN: not jaxmlir-run %s --entry=tripel --args 3 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: jaxmlir-opt --emit-artifact %s -o %t.jaxmlir
// RUN: jaxmlir-run %t.jaxmlir --entry=both --args 3 | FileCheck %s --check-prefix=BOTH

// BOTH: result[0]: f32[] = 6.0
// BOTH-NEXT: result[1]: f32[] = 3.0
// DOUBLE: result: f32[] = 6.0
// TRIPLE: result: f32[] = 9.0
// FEW: jaxmlir-run: @double takes 1 argument (f32[]), 0 arguments were given;
// LOWER: error: expected one public function, got @double, @triple; symbol-privatize{exclude=double} makes the others private
// WHICH: jaxmlir-run: the module has 2 public functions (double, triple); say which to run with --entry
// PASS: error: expected one public function, got @double, @triple; choose one with func=
// GRAD: result: f32[] = 3.0
// UNKNOWN: jaxmlir-run: the module has no function 'tripel'; did you mean 'triple'?
func.func public @double(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func public @triple(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.add"(%0, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @both(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.add"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %x : tensor<f32>, tensor<f32>
}
