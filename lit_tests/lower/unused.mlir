// Legalization keeps the function's signature and its dead ops; jaxpr-dce removes the dead ops.

// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-dce --jaxpr-legalize-to-stablehlo %s | FileCheck %s --check-prefix=DCE
// RUN: jaxmlir-run %s --args '2.0, 3.0' | FileCheck %s --check-prefix=EXEC

// CHECK:      func.func public @f(%{{.*}}: tensor<f32>, %[[Y:.*]]: tensor<f32>)
// CHECK:        stablehlo.sine
// CHECK:        return %[[Y]] : tensor<f32>

// DCE:        func.func public @f(%{{.*}}: tensor<f32>, %[[Y:.*]]: tensor<f32>)
// DCE-NEXT:     return %[[Y]] : tensor<f32>

// EXEC: result: f32[] = 3.0
func.func public @f(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
