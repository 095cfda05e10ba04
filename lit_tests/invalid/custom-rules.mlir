// RUN: jaxmlir-opt %s --jaxpr-verify --split-input-file --verify-diagnostics

// Custom derivative rules are functions whose signatures follow from the signature of the op.

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @rule(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

func.func @jvp_without_tangents(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+2 {{'jaxpr.custom_jvp_call_jaxpr' op attribute 'jvp_jaxpr': expected a function that takes 1 primal and 1 tangent, got @rule, which takes 1}}
  // expected-error@+1 {{'jaxpr.custom_jvp_call_jaxpr' op attribute 'jvp_jaxpr': expected a function that gives 1 result and 1 nonzero tangent, got @rule, which gives 1}}
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @f, jvp_jaxpr = @rule} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @fwd(%x: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xf32>) attributes {jaxpr.num_res = 1 : i64, jaxpr.input_fwds = [none]} {
  %0 = "jaxpr.lt"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %0, %x : tensor<4xi1>, tensor<4xf32>
}
func.func private @bwd(%r: tensor<4xf32>, %ct: tensor<4xf32>) -> tensor<f32> {
  %0 = "jaxpr.reduce_sum"(%ct) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

func.func @bwd_of_other_residuals(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+2 {{'jaxpr.custom_vjp_call_jaxpr' op attribute 'bwd_jaxpr': expected a function that takes tensor<4xi1> for residual #0, got @bwd, which takes tensor<4xf32>}}
  // expected-error@+1 {{'jaxpr.custom_vjp_call_jaxpr' op attribute 'bwd_jaxpr': expected a function that gives tensor<4xf32> for nonzero cotangent #0, got @bwd, which gives tensor<f32>}}
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @f, fwd_jaxpr = @fwd, bwd_jaxpr = @bwd} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @bwd(%r: tensor<4xf32>, %ct: tensor<4xf32>) -> tensor<4xf32> {
  return %ct : tensor<4xf32>
}

func.func @lin_without_residual(%t: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.custom_lin' op attribute 'bwd': expected a function that takes 0 residuals and 1 cotangent, got @bwd, which takes 2}}
  %0 = "jaxpr.custom_lin"(%t) {bwd = @bwd, in_zeros = array<i1: false>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A rule may call the function that it belongs to.

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f_jvp(%x: tensor<4xf32>, %t: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @f, jvp_jaxpr = @f_jvp} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "jaxpr.mul"(%0, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

func.func @recursive_rule(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @f, jvp_jaxpr = @f_jvp} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Each backward rule in a list belongs to the forward rule of the same list.

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @bwd(%r: tensor<4xf32>, %ct: tensor<4xf32>) -> tensor<4xf32> {
  return %ct : tensor<4xf32>
}

func.func @bwd_with_another_number_of_residuals(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.custom_vjp_call_jaxpr' op attribute 'vjp_with_zeros': expected a function that takes 0 residuals and 1 cotangent, got @bwd, which takes 2}}
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @f, vjp_with_zeros = [[@f, @bwd]]} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{'jaxpr.custom_vjp_call_jaxpr' op attribute 'vjp_with_zeros': expected lists of functions, got [[], @f]}}
  %1 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @f, vjp_with_zeros = [[], @f]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @fwd(%x: tensor<4xf32>) -> tensor<4xf32> attributes {jaxpr.input_fwds = array<i64: 0>} {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @bwd(%x: tensor<4xf32>, %ct: tensor<4xf32>) -> tensor<4xf32> {
  return %ct : tensor<4xf32>
}
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.custom_vjp_call_jaxpr' op attribute 'fwd_jaxpr': expected a function with 0 'jaxpr.input_fwds', as many as 'jaxpr.num_res', got @fwd with 1}}
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @f, fwd_jaxpr = @fwd, bwd_jaxpr = @bwd} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @fwd(%x: tensor<4xf32>) -> tensor<4xf32> attributes {jaxpr.input_fwds = array<i64: -1>, jaxpr.num_res = 1 : i64} {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @bwd(%x: tensor<4xf32>, %ct: tensor<4xf32>) -> tensor<4xf32> {
  return %ct : tensor<4xf32>
}
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.custom_vjp_call_jaxpr' op attribute 'fwd_jaxpr': expected a function with 'jaxpr.input_fwds' from 0 to 0, got @fwd with -1}}
  %0 = "jaxpr.custom_vjp_call_jaxpr"(%x) {call_jaxpr = @f, fwd_jaxpr = @fwd, bwd_jaxpr = @bwd} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
