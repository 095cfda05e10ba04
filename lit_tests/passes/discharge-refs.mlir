// References that a function creates itself become values: a read gives the value written last, and a
// called function takes and returns the values that it changes.
//
//   r = new_ref(x);  r = r * y;  add(r, y);  freeze(r)    =    x y + y

// RUN: jaxmlir-opt --jaxpr-discharge-refs --jaxpr-inline --symbol-dce %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-run %s --args '3.0, 5.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '3.0, 5.0' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-grad=argnums=0,1 %s -o %t.grad
// RUN: jaxmlir-run %t.grad --entry=f.grad --args '3.0, 5.0' | FileCheck %s --check-prefix=GRAD

// CHECK:      func.func public @f(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>) -> tensor<f32>
// CHECK-NEXT:   %[[XY:.*]] = "jaxpr.mul"(%[[X]], %[[Y]])
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.add"(%[[XY]], %[[Y]])
// CHECK-NEXT:   return %[[SUM]]
// CHECK-NOT:  jaxpr.ref

// EXEC: result: f32[] = 20.0
// GRAD:      result[0]: f32[] = 5.0
// GRAD-NEXT: result[1]: f32[] = 4.0
func.func public @f(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %r = "jaxpr.new_ref"(%x) {jaxpr.effects = [{InternalMutableArrayEffect = none}]} : (tensor<f32>) -> !jaxpr.ref<tensor<f32>>
  %0 = "jaxpr.get"(%r) {jaxpr.effects = [{ReadEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.ref<tensor<f32>>) -> tensor<f32>
  %1 = "jaxpr.mul"(%0, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "jaxpr.swap"(%r, %1) {jaxpr.effects = [{WriteEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.ref<tensor<f32>>, tensor<f32>) -> tensor<f32>
  "jaxpr.jit"(%r, %y) {jaxpr = @add, jaxpr.effects = [{AccumEffect = 0 : i64}], name = "add"} : (!jaxpr.ref<tensor<f32>>, tensor<f32>) -> ()
  %3 = "jaxpr.freeze"(%r) {jaxpr.effects = [{InternalMutableArrayEffect = none}]} : (!jaxpr.ref<tensor<f32>>) -> tensor<f32>
  return %3 : tensor<f32>
}
func.func private @add(%r: !jaxpr.ref<tensor<f32>>, %y: tensor<f32>) {
  "jaxpr.addupdate"(%r, %y) {jaxpr.effects = [{AccumEffect = 0 : i64}], tree = {pytree = []}} : (!jaxpr.ref<tensor<f32>>, tensor<f32>) -> ()
  return
}
