// Calls that draw random numbers, each with its own key, become one loop.

// RUN: jaxmlir-opt --jaxpr-roll-calls=min-calls=3 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-roll-calls=min-calls=3 %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-opt --jaxpr-roll-calls %s | FileCheck %s --check-prefix=LEFT
// RUN: jaxmlir-opt --target=cuda --jaxpr-roll-calls=min-calls=3 %s | FileCheck %s --check-prefix=LEFT
// RUN: jaxmlir-run %s --args '[0, 1], [10.0, 20.0, 30.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[0, 1], [10.0, 20.0, 30.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-roll-calls=min-calls=3 --remarks %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The keys are computed before the first call; the number that is the same in all calls is not
// stacked. The key of the last call is itself drawn, so this call stays where it is.
// CHECK:      func.func public @main(%[[K:.*]]: tensor<!jaxpr.key<"fry">>, %[[X:.*]]: tensor<3xf32>)
// CHECK:        %[[P:.*]] = "jaxpr.constant"() {value = dense<5.000000e-01> : tensor<f32>}
// CHECK:        %[[K0:.*]] = "jaxpr.random_fold_in"(%[[K]], %{{.*}})
// CHECK:        %[[K1:.*]] = "jaxpr.random_fold_in"(%[[K]], %{{.*}})
// CHECK:        %[[K2:.*]] = "jaxpr.random_fold_in"(%[[K]], %{{.*}})
// CHECK-NEXT:   %[[KS:.*]] = "jaxpr.stack"(%[[K0]], %[[K1]], %[[K2]]) {axis = 0 : i64}
// CHECK-NEXT:   %[[M:.*]] = "jaxpr.scan"(%[[P]], %[[KS]]) {jaxpr = @mask.map, length = 3 : i64, num_consts = 1 : i64} : (tensor<f32>, tensor<3x!jaxpr.key<"fry">>) -> tensor<3x3xi1>
// CHECK-NEXT:   "jaxpr.slice"(%[[M]]) {limit_indices = array<i64: 1, 3>, start_indices = array<i64: 0, 0>}
// CHECK:        "jaxpr.jit"(%{{.*}}, %[[P]]) {jaxpr = @mask, name = "mask"}
// CHECK-NOT:    "jaxpr.jit"
// CHECK:      func.func private @mask.map(%[[Q:.*]]: tensor<f32>, %[[KEY:.*]]: tensor<!jaxpr.key<"fry">>) -> tensor<3xi1>
// CHECK-NEXT:   %[[R:.*]] = "jaxpr.jit"(%[[KEY]], %[[Q]]) {jaxpr = @mask, name = "mask"}
// CHECK-NEXT:   return %[[R]]

// LEFT-NOT: jaxpr.scan

// EXEC: result: f32[3] = [

// REMARK: roll-calls.mlir:{{[0-9]+}}:9: remark: [jaxpr-roll-calls] rolled 3 calls that draw random numbers into one loop
func.func public @main(%k: tensor<!jaxpr.key<"fry">>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = "jaxpr.constant"() {value = dense<0.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %p = "jaxpr.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %n0 = "jaxpr.constant"() {value = dense<0> : tensor<ui32>} : () -> tensor<ui32>
  %k0 = "jaxpr.random_fold_in"(%k, %n0) : (tensor<!jaxpr.key<"fry">>, tensor<ui32>) -> tensor<!jaxpr.key<"fry">>
  %m0 = "jaxpr.jit"(%k0, %p) {jaxpr = @mask, name = "mask"} : (tensor<!jaxpr.key<"fry">>, tensor<f32>) -> tensor<3xi1>
  %y0 = "jaxpr.select_n"(%m0, %x, %zero) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %z0 = "jaxpr.sin"(%y0) : (tensor<3xf32>) -> tensor<3xf32>
  %n1 = "jaxpr.constant"() {value = dense<1> : tensor<ui32>} : () -> tensor<ui32>
  %k1 = "jaxpr.random_fold_in"(%k, %n1) : (tensor<!jaxpr.key<"fry">>, tensor<ui32>) -> tensor<!jaxpr.key<"fry">>
  %m1 = "jaxpr.jit"(%k1, %p) {jaxpr = @mask, name = "mask"} : (tensor<!jaxpr.key<"fry">>, tensor<f32>) -> tensor<3xi1>
  %y1 = "jaxpr.select_n"(%m1, %x, %z0) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %n2 = "jaxpr.constant"() {value = dense<2> : tensor<ui32>} : () -> tensor<ui32>
  %k2 = "jaxpr.random_fold_in"(%k, %n2) : (tensor<!jaxpr.key<"fry">>, tensor<ui32>) -> tensor<!jaxpr.key<"fry">>
  %m2 = "jaxpr.jit"(%k2, %p) {jaxpr = @mask, name = "mask"} : (tensor<!jaxpr.key<"fry">>, tensor<f32>) -> tensor<3xi1>
  %y2 = "jaxpr.select_n"(%m2, %y1, %z0) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %b = "jaxpr.convert_element_type"(%m2) {new_dtype = ui32} : (tensor<3xi1>) -> tensor<3xui32>
  %n3 = "jaxpr.reduce_sum"(%b) {axes = array<i64: 0>} : (tensor<3xui32>) -> tensor<ui32>
  %k3 = "jaxpr.random_fold_in"(%k, %n3) : (tensor<!jaxpr.key<"fry">>, tensor<ui32>) -> tensor<!jaxpr.key<"fry">>
  %m3 = "jaxpr.jit"(%k3, %p) {jaxpr = @mask, name = "mask"} : (tensor<!jaxpr.key<"fry">>, tensor<f32>) -> tensor<3xi1>
  %y3 = "jaxpr.select_n"(%m3, %y2, %x) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %y3 : tensor<3xf32>
}

func.func private @mask(%k: tensor<!jaxpr.key<"fry">>, %p: tensor<f32>) -> tensor<3xi1> {
  %bits = "jaxpr.random_bits"(%k) {bit_width = 32 : i64, shape = array<i64: 3>} : (tensor<!jaxpr.key<"fry">>) -> tensor<3xui32>
  %u = "jaxpr.convert_element_type"(%bits) {new_dtype = f32} : (tensor<3xui32>) -> tensor<3xf32>
  %c = "jaxpr.constant"() {value = dense<4294967296.0> : tensor<f32>} : () -> tensor<f32>
  %q = "jaxpr.div"(%u, %c) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %m = "jaxpr.lt"(%q, %p) : (tensor<3xf32>, tensor<f32>) -> tensor<3xi1>
  return %m : tensor<3xi1>
}
