// random_clone: The same keys, counted as new ones by the key-reuse checker.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[0, 7]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.random_clone"(%{{.*}}) : (tensor<!jaxpr.key<"fry">>) -> tensor<!jaxpr.key<"fry">>
// HLO: return
// EXEC: result: key<fry>[] = [0, 7]
func.func public @random_clone(%arg0: tensor<!jaxpr.key<"fry">>) -> tensor<!jaxpr.key<"fry">> {
  %0 = "jaxpr.random_clone"(%arg0) : (tensor<!jaxpr.key<"fry">>) -> tensor<!jaxpr.key<"fry">>
  return %0 : tensor<!jaxpr.key<"fry">>
}
