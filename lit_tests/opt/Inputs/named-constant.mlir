func.func public @f(%i: tensor<i32>) -> tensor<2000xf32> {
  %0 = "jaxpr.constant"() {name = "c0"} : () -> tensor<2000xf32>
  return %0 : tensor<2000xf32>
}
