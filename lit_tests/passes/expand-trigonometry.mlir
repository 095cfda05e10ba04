// Sines, cosines and tangents of 32-bit floats become polynomials of 64-bit numbers.

// RUN: jaxmlir-opt --jaxpr-expand-trigonometry='calls=inf min-elements=5' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-expand-trigonometry=calls=inf %s -o %t.small
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-trigonometry='calls=inf min-elements=5' %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.small %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[-0.0, 0.5, -2.0, 1e30, inf], [1.0], [0.5]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[-0.0, 0.5, -2.0, 1e30, inf], [1.0], [0.5]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-expand-trigonometry='calls=inf min-elements=5' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK-COUNT-3: remark: [jaxpr-expand-trigonometry] expanded into a polynomial
// REMARK-NOT: remark

// EXEC: result[0]: f32[5] = [-0.0, 0.47942555, -0.9092974, -0.79116344, nan]
// EXEC: result[1]: f32[5] = [1.0, 0.87758255, -0.41614684, -0.6116048, nan]
// EXEC: result[2]: f32[5] = [-0.0, 0.5463025, 2.18503{{.*}}, 1.29358{{.*}}, nan]
// EXEC: result[3]: f32[1] = [0.84147096]
// EXEC: result[4]: f64[1] = [0.479425{{.*}}]

// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[X:.*]]: tensor<5xf32>, %[[FEW:.*]]: tensor<1xf32>, %[[WIDE:.*]]: tensor<1xf64>)
func.func public @main(%x: tensor<5xf32>, %few: tensor<1xf32>, %wide: tensor<1xf64>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<1xf32>, tensor<1xf64>) {

  // 1 / (2 pi) in six parts, and the number of quarter turns.
  // CHECK:         %[[Y:.*]] = "jaxpr.convert_element_type"(%[[X]]) {{.*}} -> tensor<5xf64>
  // CHECK-COUNT-6: "jaxpr.mul"({{.*}}%[[Y]]{{.*}}
  // CHECK:         "jaxpr.round"
  // CHECK:         "jaxpr.select_n"
  // CHECK:         %[[NARROW:.*]] = "jaxpr.convert_element_type"{{.*}} -> tensor<5xf32>
  // The sine of a tiny number is the number itself.
  // CHECK:         %[[SIN:.*]] = "jaxpr.select_n"({{.*}}, %[[NARROW]], %[[X]])
  %0 = "jaxpr.sin"(%x) : (tensor<5xf32>) -> tensor<5xf32>

  // CHECK:         %[[COS:.*]] = "jaxpr.convert_element_type"{{.*}} -> tensor<5xf32>
  %1 = "jaxpr.cos"(%x) : (tensor<5xf32>) -> tensor<5xf32>

  // CHECK:         "jaxpr.div"{{.*}} -> tensor<5xf64>
  // CHECK:         %[[TAN:.*]] = "jaxpr.select_n"({{.*}}, %[[X]])
  %2 = "jaxpr.tan"(%x) : (tensor<5xf32>) -> tensor<5xf32>

  // Small arrays and other types stay as they are.
  // CHECK:         %[[OF_FEW:.*]] = "jaxpr.sin"(%[[FEW]])
  %3 = "jaxpr.sin"(%few) : (tensor<1xf32>) -> tensor<1xf32>
  // CHECK:         %[[OF_WIDE:.*]] = "jaxpr.sin"(%[[WIDE]])
  %4 = "jaxpr.sin"(%wide) : (tensor<1xf64>) -> tensor<1xf64>

  // CHECK:         return %[[SIN]], %[[COS]], %[[TAN]], %[[OF_FEW]], %[[OF_WIDE]]
  return %0, %1, %2, %3, %4 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<1xf32>, tensor<1xf64>
}
