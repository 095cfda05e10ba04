// fft: Discrete Fourier transform over the last dimensions; kinds FFT, IFFT, RFFT, IRFFT.

// RUN: jaxmlir-opt --jaxpr-verify %s | FileCheck %s
// RUN: jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s | FileCheck %s --check-prefix=HLO
// RUN: jaxmlir-run %s --args '[(1+0j), 2j, (-1+0j), 0j]' | FileCheck %s --check-prefix=EXEC

// CHECK: "jaxpr.fft"(%{{.*}}) {fft_lengths = array<i64: 4>, fft_type = {FftType = "FFT"}} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
// HLO: stablehlo.fft %{{.*}}, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
// EXEC: result: c64[4] = [2j, (4+0j), -2j, 0j]
func.func public @fft(%arg0: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = "jaxpr.jit"(%arg0) {jaxpr = @fft_0, name = "fft"} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
func.func private @fft_0(%arg0: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = "jaxpr.fft"(%arg0) {fft_lengths = array<i64: 4>, fft_type = {FftType = "FFT"}} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
