// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s
// RUN: jaxmlir-run %s --args '1.0' | FileCheck %s --check-prefix=EXEC

// Ops with ordered effects take and return a token, so that they stay in the order of the program.
// The pytrees do not contain the token.

// CHECK-LABEL: func.func public @f
// CHECK-SAME: ([[before:%.*]]: !stablehlo.token {jax.token = true}, %{{.*}}: tensor<f32>)
// CHECK-NOT: _tree
// CHECK: [[between:%.*]] = stablehlo.custom_call @xla_ffi_python_cpu_callback([[before]], %{{.*}})
// CHECK: stablehlo.negate
// CHECK: [[after:%.*]] = stablehlo.custom_call @xla_ffi_python_cpu_callback([[between]], %{{.*}})
// CHECK: return [[after]], %{{.*}} : !stablehlo.token, tensor<f32>
// EXEC: before 1.0
// EXEC-NEXT: after -1.0
// EXEC-NEXT: result: f32[] = -1.0
func.func public @f(%x: tensor<f32>) -> tensor<f32> attributes {jaxpr.in_tree = [["*"], {dict = []}], jaxpr.out_tree = "*"} {
  "jaxpr.debug_print"(%x) {fmt = "before {}", in_tree = {pytree = [["*"], {dict = []}]}, jaxpr.effects = [{OrderedDebugEffect = none}], ordered = true} : (tensor<f32>) -> ()
  %0 = "jaxpr.neg"(%x) : (tensor<f32>) -> tensor<f32>
  "jaxpr.debug_print"(%0) {fmt = "after {}", in_tree = {pytree = [["*"], {dict = []}]}, jaxpr.effects = [{OrderedDebugEffect = none}], ordered = true} : (tensor<f32>) -> ()
  return %0 : tensor<f32>
}
