// Elementary functions of 32-bit floats and of complex numbers become polynomials of 64-bit floats.

// RUN: jaxmlir-opt --jaxpr-expand-elementary='calls=inf min-elements=5' %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-expand-elementary=calls=inf %s -o %t.small
// RUN: jaxmlir-opt --target=tpu --jaxpr-expand-elementary='calls=inf min-elements=5' %s -o %t.other
// RUN: jaxmlir-opt %s -o %t.same
// RUN: diff %t.small %t.same
// RUN: diff %t.other %t.same
// RUN: jaxmlir-run %s --args '[-0.0, 0.5, -2.0, 1e30, inf], [3.0, -1.0, -0.0, 7.0, 0.0], [1.0], [0.5]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[-0.0, 0.5, -2.0, 1e30, inf], [3.0, -1.0, -0.0, 7.0, 0.0], [1.0], [0.5]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-expand-elementary='calls=inf min-elements=5' --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: remark: [jaxpr-expand-elementary] expanded into a polynomial (and 5 more of this kind)
// REMARK-NOT: remark

// EXEC: result[0]: f32[5] = [-0.0, 0.47942555, -0.9092974, -0.79116344, nan]
// EXEC: result[1]: f32[5] = [1.0, 0.87758255, -0.41614684, -0.6116048, nan]
// EXEC: result[2]: f32[5] = [-0.0, 0.5463025, 2.18503{{.*}}, 1.29358{{.*}}, nan]
// EXEC: result[3]: f32[5] = [-0.0, 2.67794{{.*}}, -1.57079{{.*}}, 1.57079{{.*}}, 1.57079{{.*}}]
// EXEC: result[4]: f32[5] = [-0.0, 0.5, nan, 1.0, nan]
// EXEC: result[5]: c64[5] = [(1.09861{{.*}}-0j), (0.11157{{.*}}+2.67794{{.*}}j), (0.69314{{.*}}-1.57079{{.*}}j), (69.0775{{.*}}+1.57079{{.*}}j),
// EXEC-NEXT: (inf+1.57079{{.*}}j)]
// EXEC: result[6]: f32[1] = [0.84147096]
// EXEC: result[7]: f64[1] = [0.479425{{.*}}]

// CHECK-LABEL: func.func public @main
// CHECK-SAME:    (%[[X:.*]]: tensor<5xf32>, %[[Y:.*]]: tensor<5xf32>, %[[FEW:.*]]: tensor<1xf32>, %[[WIDE:.*]]: tensor<1xf64>)
func.func public @main(%x: tensor<5xf32>, %y: tensor<5xf32>, %few: tensor<1xf32>, %wide: tensor<1xf64>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xcomplex<f32>>, tensor<1xf32>, tensor<1xf64>) {

  // Each is a function with a derivative rule, which gives the derivative of the op.
  // CHECK:         %[[SIN:.*]] = "jaxpr.custom_jvp_call_jaxpr"(%[[X]]) {call_jaxpr = @sin, jvp_jaxpr = @sin_jvp}
  %0 = "jaxpr.sin"(%x) : (tensor<5xf32>) -> tensor<5xf32>

  // CHECK:         %[[COS:.*]] = "jaxpr.custom_jvp_call_jaxpr"(%[[X]]) {call_jaxpr = @cos, jvp_jaxpr = @cos_jvp}
  %1 = "jaxpr.cos"(%x) : (tensor<5xf32>) -> tensor<5xf32>

  // CHECK:         %[[TAN:.*]] = "jaxpr.custom_jvp_call_jaxpr"(%[[X]]) {call_jaxpr = @tan, jvp_jaxpr = @tan_jvp}
  %2 = "jaxpr.tan"(%x) : (tensor<5xf32>) -> tensor<5xf32>

  // CHECK:         %[[ATAN2:.*]] = "jaxpr.custom_jvp_call_jaxpr"(%[[X]], %[[Y]]) {call_jaxpr = @atan2, jvp_jaxpr = @atan2_jvp}
  %3 = "jaxpr.atan2"(%x, %y) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>

  // CHECK:         %[[REM:.*]] = "jaxpr.custom_jvp_call_jaxpr"(%[[X]], %[[Y]]) {call_jaxpr = @rem, jvp_jaxpr = @rem_jvp}
  %4 = "jaxpr.rem"(%x, %y) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>

  // CHECK:         %[[Z:.*]] = "jaxpr.complex"(%[[Y]], %[[X]])
  // CHECK:         %[[LOG:.*]] = "jaxpr.custom_jvp_call_jaxpr"(%[[Z]]) {call_jaxpr = @log, jvp_jaxpr = @log_jvp}
  %z = "jaxpr.complex"(%y, %x) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xcomplex<f32>>
  %5 = "jaxpr.log"(%z) : (tensor<5xcomplex<f32>>) -> tensor<5xcomplex<f32>>

  // Small arrays and other types stay as they are.
  // CHECK:         %[[OF_FEW:.*]] = "jaxpr.sin"(%[[FEW]])
  %6 = "jaxpr.sin"(%few) : (tensor<1xf32>) -> tensor<1xf32>
  // CHECK:         %[[OF_WIDE:.*]] = "jaxpr.sin"(%[[WIDE]])
  %7 = "jaxpr.sin"(%wide) : (tensor<1xf64>) -> tensor<1xf64>

  // CHECK:         return %[[SIN]], %[[COS]], %[[TAN]], %[[ATAN2]], %[[REM]], %[[LOG]], %[[OF_FEW]], %[[OF_WIDE]]
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xcomplex<f32>>, tensor<1xf32>, tensor<1xf64>
}

// 1 / (2 pi) in six parts, and the number of quarter turns.
// CHECK-LABEL:   func.func private @sin(
// CHECK:         %[[W:.*]] = "jaxpr.convert_element_type"(%[[ARG:.*]]) {{.*}} -> tensor<5xf64>
// CHECK-COUNT-6: "jaxpr.mul"({{.*}}%[[W]]{{.*}}
// CHECK:         "jaxpr.round"
// CHECK:         "jaxpr.select_n"
// CHECK:         %[[NARROW:.*]] = "jaxpr.convert_element_type"{{.*}} -> tensor<5xf32>
// The sine of a tiny number is the number itself.
// CHECK:         "jaxpr.select_n"({{.*}}, %[[NARROW]], %[[ARG]])

// CHECK-LABEL:   func.func private @sin_jvp(
// CHECK:         "jaxpr.cos"
