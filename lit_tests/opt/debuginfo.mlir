// RUN: jaxmlir-opt %s --mlir-print-debuginfo | FileCheck %s
// RUN: jaxmlir-opt %s --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LOCAL
// RUN: jaxmlir-opt %s | FileCheck %s --check-prefix=OFF
// RUN: jaxmlir-opt %s --mlir-print-debuginfo | jaxmlir-opt --mlir-print-debuginfo | FileCheck %s

// CHECK: "jaxpr.neg"(%{{.*}}) : (tensor<f32>) -> tensor<f32> loc(#[[USER:.*]])
// CHECK: return {{.*}} loc(#[[RETURN:.*]])
// CHECK-DAG: #[[USER]] = loc("user.py":3:4)
// CHECK-DAG: #[[RETURN]] = loc("{{.*}}debuginfo.mlir":15:3)
// LOCAL: "jaxpr.neg"(%{{.*}}) : (tensor<f32>) -> tensor<f32> loc("user.py":3:4)
// OFF-NOT: loc(
func.func public @f(%x: tensor<f32>) -> tensor<f32> {
  %y = "jaxpr.neg"(%x) : (tensor<f32>) -> tensor<f32> loc("user.py":3:4)
  // The terminator has the location of its text.
  return %y : tensor<f32>
}
