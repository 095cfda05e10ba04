// The entry function may have any name, may be called by other functions, and may stand beside a mesh.

// RUN: jaxmlir-run %s --entry=sine --args '[0, 1]' | FileCheck %s --check-prefix=SINE
// RUN: jaxmlir-run %s --entry=main --args '[0, 1]' | FileCheck %s --check-prefix=MAIN

// SINE: result: f32[2] = [0.0, 0.84147096]
// MAIN: result: f32[2] = [0.0, 1.6829419]
sdy.mesh @mesh = <["a"=1]>
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @sine(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func public @sine(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = sdy.sharding_constraint %x <@mesh, [{"a"}]> : tensor<2xf32>
  %1 = stablehlo.sine %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
