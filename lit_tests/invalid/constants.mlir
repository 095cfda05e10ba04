// RUN: jaxmlir-opt %s --jaxpr-verify --split-input-file --verify-diagnostics

func.func @shape() -> tensor<4xf32> {
  // expected-error@+1 {{'jaxpr.constant' op attribute 'value': expected tensor<4xf32> for a result tensor<4xf32>, got tensor<3xf32>}}
  %0 = "jaxpr.constant"() {value = dense<1.0> : tensor<3xf32>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @dtype() -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.constant' op attribute 'value': expected tensor<f32> for a result tensor<f32>, got tensor<i32>}}
  %0 = "jaxpr.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @random_key() -> tensor<!jaxpr.key<"fry">> {
  // expected-error@+1 {{'jaxpr.constant' op attribute 'value': expected tensor<2xui32> for a result tensor<!jaxpr.key<"fry">>, got tensor<4xui32>}}
  %0 = "jaxpr.constant"() {value = dense<0> : tensor<4xui32>} : () -> tensor<!jaxpr.key<"fry">>
  return %0 : tensor<!jaxpr.key<"fry">>
}

// -----

func.func @nothing() -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.constant' op requires attribute 'value' or 'name': expected one of them, got attributes 'values'}}
  %0 = "jaxpr.constant"() {values = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @no_array() -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.constant' op attribute 'value': expected an array or a handle, got "one" : tensor<f32>}}
  %0 = "jaxpr.constant"() {value = "one" : tensor<f32>} : () -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @lost_handle() -> tensor<f32> {
  // expected-error@+1 {{'jaxpr.constant' op: handle "h12345" stands for a Python object of another process}}
  %0 = "jaxpr.constant"() {value = {handle = "h12345"}} : () -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A constant given only by name is valid text; the missing value is an error only where it is used.
func.func @by_name() -> tensor<4096xf32> {
  %0 = "jaxpr.constant"() {name = "c0"} : () -> tensor<4096xf32>
  return %0 : tensor<4096xf32>
}
