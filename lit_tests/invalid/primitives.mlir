// RUN: jaxmlir-opt %s --jaxpr-verify --split-input-file --verify-diagnostics

// Primitives that the installed JAX does not have, and handles of objects of another process.

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.cumsumm' op: the installed JAX has no primitive "cumsumm", and no imported module registers one; did you mean 'cumsum'?}}
  %0 = "jaxpr.cumsumm"(%x) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @nothing_near(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.qqqqqqqq' op: the installed JAX has no primitive "qqqqqqqq", and no imported module registers one}}
  %0 = "jaxpr.qqqqqqqq"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @lost_handle(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.pure_callback' op: handle "h12345" stands for a Python object of another process, or of a program that no longer exists: a program with Python callbacks can only be used where it was traced}}
  %0 = "jaxpr.pure_callback"(%x) {callback = {handle = "h12345"}, result_avals = [tensor<4xf32>], vmap_method = "sequential"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @unknown_parameter_type(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.xla_metadata_value' op: {Accuracy = "HIGHEST"}: this process knows no parameter type}}
  %0 = "jaxpr.xla_metadata_value"(%x) {xla_metadata_kvs = {Accuracy = "HIGHEST"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
