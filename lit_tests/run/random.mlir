// RUN: jaxmlir-run %s --random-args > %t.1
// RUN: jaxmlir-run %s --random-args=0 > %t.2
// RUN: jaxmlir-run %s --random-args=1 > %t.3
// RUN: FileCheck %s < %t.1
// RUN: jaxmlir-run %s --args '[7.5, 8.5]' --random-args | FileCheck %s --check-prefix=GIVEN
// RUN: diff %t.1 %t.2
// RUN: not diff %t.1 %t.3

// The same seed gives the same arguments; --args come first.

// CHECK: result[0]: f32[2] = [{{-?[0-9.]+}}, {{-?[0-9.]+}}]
// CHECK: result[1]: i8[3] = [{{[0-9]}}, {{[0-9]}}, {{[0-9]}}]
// CHECK: result[2]: bool[] = {{True|False}}
// CHECK: result[3]: c64[] = ({{.*}}j)
// CHECK: result[4]: bf16[] = {{-?[0-9.]+}}
// CHECK: result[5]: key<fry>[] = [{{[0-9]+}}, {{[0-9]+}}]
// GIVEN: result[0]: f32[2] = [7.5, 8.5]
func.func public @f(%a: tensor<2xf32>, %b: tensor<3xi8>, %c: tensor<i1>, %d: tensor<complex<f32>>, %e: tensor<bf16>, %k: tensor<!jaxpr.key<"fry">>) -> (tensor<2xf32>, tensor<3xi8>, tensor<i1>, tensor<complex<f32>>, tensor<bf16>, tensor<!jaxpr.key<"fry">>) {
  return %a, %b, %c, %d, %e, %k : tensor<2xf32>, tensor<3xi8>, tensor<i1>, tensor<complex<f32>>, tensor<bf16>, tensor<!jaxpr.key<"fry">>
}
