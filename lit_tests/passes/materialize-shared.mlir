// Fences: an expensive value with several users is stored, and not computed again for each user.

// RUN: jaxmlir-opt --jaxpr-materialize-shared=threshold=2 %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --target=cuda --jaxpr-materialize-shared %s | FileCheck %s --check-prefix=CUDA
// RUN: jaxmlir-run %s --args '[2.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-run %t --args '[2.0, 2.0]' | FileCheck %s --check-prefix=EXEC
// RUN: jaxmlir-opt --jaxpr-materialize-shared=threshold=2 --remarks=all %s -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// x^4 costs 2 ops and has two users, so it is cheap. The sum costs 45: a sine costs as much as 40 ops, and x^4 is in the sum twice. The sum is returned as well as used, so it is fenced. The cost of its users starts from zero.
// If the compiler fuses across barriers, the fence is a call instead.
// CHECK:      func.func public @main(%[[X:.*]]: tensor<2xf32>)
// CHECK-NEXT:   %[[X2:.*]] = "jaxpr.mul"(%[[X]], %[[X]])
// CHECK-NEXT:   %[[X4:.*]] = "jaxpr.mul"(%[[X2]], %[[X2]])
// CHECK-NEXT:   %[[SIN:.*]] = "jaxpr.sin"(%[[X4]])
// CHECK-NEXT:   %[[SUM:.*]] = "jaxpr.add"(%[[SIN]], %[[X4]])
// CHECK-NEXT:   %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[SUM]])
// CHECK-NEXT:   %[[COS:.*]] = "jaxpr.cos"(%[[STORED]])
// CHECK-NEXT:   %[[OUT:.*]] = "jaxpr.add"(%[[COS]], %[[STORED]])
// CHECK-NEXT:   return %[[OUT]], %[[STORED]]

// CUDA-NOT: {{fence|optimization_barrier}}

// EXEC: result[0]: f32[2] = [14.712106, 14.712106]

// REMARK: materialize-shared.mlir:{{[0-9]+}}:8: remark: [jaxpr-materialize-shared] stored because 3 ops use it, and an element costs 45 ops
func.func public @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.mul"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.mul"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.sin"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "jaxpr.add"(%2, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = "jaxpr.cos"(%3) : (tensor<2xf32>) -> tensor<2xf32>
  %5 = "jaxpr.add"(%4, %3) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %5, %3 : tensor<2xf32>, tensor<2xf32>
}

// The sine and its cosine are added up in one kernel, which computes the sine once: no fence.
// CHECK-LABEL: func.func private @together
// CHECK-NEXT:    %[[SIN:.*]] = "jaxpr.sin"
// CHECK-NEXT:    "jaxpr.cos"(%[[SIN]])
func.func private @together(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.cos"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.add"(%1, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// XLA itself stores a quotient or an exponential that several kernels read, so each kernel recomputes only two ops. A quotient by a number becomes a product, which XLA does not store.
// CHECK-LABEL: func.func private @stored_anyway
// CHECK-NOT:     {{fence|optimization_barrier}}
// CHECK:         return
func.func private @stored_anyway(%x: tensor<128x128xf32>) -> (tensor<128x128xf32>, tensor<128x128xf32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %1 = "jaxpr.exp"(%0) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %2 = "jaxpr.div"(%1, %x) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %3 = "jaxpr.mul"(%2, %x) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %4 = "jaxpr.sub"(%3, %1) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %5 = "jaxpr.rev"(%4) {dimensions = array<i64: 0>} : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %4, %5 : tensor<128x128xf32>, tensor<128x128xf32>
}
// CHECK-LABEL: func.func private @by_a_number
// CHECK:         %[[SUM:.*]] = "jaxpr.add"
// CHECK-NEXT:    "jaxpr.{{jit|optimization_barrier}}"(%[[SUM]])
func.func private @by_a_number(%x: tensor<128x128xf32>, %y: tensor<f32>) -> (tensor<128x128xf32>, tensor<128x128xf32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %1 = "jaxpr.div"(%0, %y) : (tensor<128x128xf32>, tensor<f32>) -> tensor<128x128xf32>
  %2 = "jaxpr.add"(%1, %x) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %3 = "jaxpr.rev"(%2) {dimensions = array<i64: 0>} : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %2, %3 : tensor<128x128xf32>, tensor<128x128xf32>
}

// The users come together in a sum that has two users: the sum is fenced.
// CHECK-LABEL: func.func private @at_the_end
// CHECK-NEXT:    %[[SIN:.*]] = "jaxpr.sin"
// CHECK-NEXT:    %[[TWICE:.*]] = "jaxpr.add"(%[[SIN]], %[[SIN]])
// CHECK-NEXT:    %[[SUM:.*]] = "jaxpr.mul"(%[[TWICE]], %[[SIN]])
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[SUM]])
// CHECK-NEXT:    %[[REV:.*]] = "jaxpr.rev"(%[[STORED]])
// CHECK-NEXT:    return %[[STORED]], %[[REV]]
func.func private @at_the_end(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "jaxpr.add"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "jaxpr.mul"(%1, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "jaxpr.rev"(%2) {dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2xf32>
  return %2, %3 : tensor<2xf32>, tensor<2xf32>
}

// Each kernel that reads a number computes it once: the number is not fenced, and makes no array expensive.
// CHECK-LABEL: func.func private @number
// CHECK-NEXT:    %[[SIN:.*]] = "jaxpr.sin"
// CHECK-NEXT:    %[[ALL:.*]] = "jaxpr.broadcast_in_dim"(%[[SIN]])
// CHECK-NEXT:    "jaxpr.add"(%[[ALL]]
// CHECK-NEXT:    return
func.func private @number(%x: tensor<f32>, %y: tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "jaxpr.broadcast_in_dim"(%0) {broadcast_dimensions = [], shape = array<i64: 2>} : (tensor<f32>) -> tensor<2xf32>
  %2 = "jaxpr.add"(%1, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2 : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}

// One op uses the sine and reads each element three times, so the sine is fenced; the sine of a smaller array is not.
// CHECK-LABEL: func.func private @spread
// CHECK-NEXT:    %[[SIN:.*]] = "jaxpr.sin"
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[SIN]])
// CHECK-NEXT:    "jaxpr.broadcast_in_dim"(%[[STORED]])
// REMARK: remark: [jaxpr-materialize-shared] stored because its user reads each element several times, and an element costs 40 ops
func.func private @spread(%x: tensor<64x64xf32>) -> tensor<64x64x3xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "jaxpr.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 0, 1>, shape = array<i64: 64, 64, 3>} : (tensor<64x64xf32>) -> tensor<64x64x3xf32>
  return %1 : tensor<64x64x3xf32>
}
// CHECK-LABEL: func.func private @spread_a_little
// CHECK-NEXT:    %[[SIN:.*]] = "jaxpr.sin"
// CHECK-NEXT:    "jaxpr.broadcast_in_dim"(%[[SIN]])
func.func private @spread_a_little(%x: tensor<8x8xf32>) -> tensor<8x8x3xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = "jaxpr.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 0, 1>, shape = array<i64: 8, 8, 3>} : (tensor<8x8xf32>) -> tensor<8x8x3xf32>
  return %1 : tensor<8x8x3xf32>
}

// The sine is fenced even if it has few elements, because XLA computes a sine for each row that contains it.
// CHECK-LABEL: func.func private @few_spread
// CHECK-NEXT:    %[[SIN:.*]] = "jaxpr.sin"
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[SIN]])
// CHECK-NEXT:    "jaxpr.broadcast_in_dim"(%[[STORED]])
func.func private @few_spread(%x: tensor<8xf32>) -> tensor<512x8xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "jaxpr.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 1>, shape = array<i64: 512, 8>} : (tensor<8xf32>) -> tensor<512x8xf32>
  return %1 : tensor<512x8xf32>
}

// Arrays are joined before they are broadcast, because a kernel would ask for each element which array it is in. One array joined to itself counts as a broadcast array.
// CHECK-LABEL: func.func private @joined_and_spread
// CHECK-NEXT:    %[[JOINED:.*]] = "jaxpr.concatenate"
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[JOINED]])
// CHECK-NEXT:    "jaxpr.custom_jvp_call_jaxpr"(%[[STORED]])
// REMARK: remark: [jaxpr-materialize-shared] stored because its user reads each element several times, and an element costs 32 ops
func.func private @joined_and_spread(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<2x2048xf32> {
  %0 = "jaxpr.concatenate"(%x, %y) {dimension = 0 : i64} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<2048xf32>
  %1 = "jaxpr.custom_jvp_call_jaxpr"(%0) {call_jaxpr = @twice, jvp_jaxpr = @twice_jvp} : (tensor<2048xf32>) -> tensor<2x2048xf32>
  return %1 : tensor<2x2048xf32>
}
// CHECK-LABEL: func.func private @twice
// CHECK-NOT:     {{fence|optimization_barrier}}
// CHECK:         return
func.func private @twice(%x: tensor<2048xf32>) -> tensor<2x2048xf32> {
  %0 = "jaxpr.reshape"(%x) {new_sizes = array<i64: 1, 2048>} : (tensor<2048xf32>) -> tensor<1x2048xf32>
  %1 = "jaxpr.concatenate"(%0, %0) {dimension = 0 : i64} : (tensor<1x2048xf32>, tensor<1x2048xf32>) -> tensor<2x2048xf32>
  return %1 : tensor<2x2048xf32>
}
func.func private @twice_jvp(%x: tensor<2048xf32>, %t: tensor<2048xf32>) -> (tensor<2x2048xf32>, tensor<2x2048xf32>) {
  %0 = "jaxpr.jit"(%x) {jaxpr = @twice, name = "twice"} : (tensor<2048xf32>) -> tensor<2x2048xf32>
  %1 = "jaxpr.jit"(%t) {jaxpr = @twice, name = "twice"} : (tensor<2048xf32>) -> tensor<2x2048xf32>
  return %0, %1 : tensor<2x2048xf32>, tensor<2x2048xf32>
}

// If all parts of a value are broadcast, or if the value is read by index, the whole value is stored, not each part.
// CHECK-LABEL: func.func private @parts_spread
// CHECK-NEXT:    %[[SIN:.*]] = "jaxpr.sin"
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[SIN]])
// CHECK-NEXT:    %[[FIRST:.*]] = "jaxpr.slice"(%[[STORED]])
// CHECK-NEXT:    %[[SECOND:.*]] = "jaxpr.slice"(%[[STORED]])
// CHECK-NEXT:    "jaxpr.broadcast_in_dim"(%[[FIRST]])
// CHECK-NEXT:    "jaxpr.broadcast_in_dim"(%[[SECOND]])
func.func private @parts_spread(%x: tensor<64x2xf32>) -> (tensor<64x1x64xf32>, tensor<64x1x64xf32>) {
  %0 = "jaxpr.sin"(%x) : (tensor<64x2xf32>) -> tensor<64x2xf32>
  %1 = "jaxpr.slice"(%0) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 64, 1>} : (tensor<64x2xf32>) -> tensor<64x1xf32>
  %2 = "jaxpr.slice"(%0) {start_indices = array<i64: 0, 1>, limit_indices = array<i64: 64, 2>} : (tensor<64x2xf32>) -> tensor<64x1xf32>
  %3 = "jaxpr.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64: 0, 1>, shape = array<i64: 64, 1, 64>} : (tensor<64x1xf32>) -> tensor<64x1x64xf32>
  %4 = "jaxpr.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64: 0, 1>, shape = array<i64: 64, 1, 64>} : (tensor<64x1xf32>) -> tensor<64x1x64xf32>
  return %3, %4 : tensor<64x1x64xf32>, tensor<64x1x64xf32>
}

// If other parts are not read, only the part that is read is stored.
// CHECK-LABEL: func.func private @part_spread
// CHECK-NEXT:    %[[SIN:.*]] = "jaxpr.sin"
// CHECK-NEXT:    %[[FIRST:.*]] = "jaxpr.slice"(%[[SIN]])
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[FIRST]])
// CHECK-NEXT:    "jaxpr.broadcast_in_dim"(%[[STORED]])
func.func private @part_spread(%x: tensor<64x2xf32>) -> tensor<64x1x64xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<64x2xf32>) -> tensor<64x2xf32>
  %1 = "jaxpr.slice"(%0) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 64, 1>} : (tensor<64x2xf32>) -> tensor<64x1xf32>
  %2 = "jaxpr.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64: 0, 1>, shape = array<i64: 64, 1, 64>} : (tensor<64x1xf32>) -> tensor<64x1x64xf32>
  return %2 : tensor<64x1x64xf32>
}

// CHECK-LABEL: func.func private @gathered
// CHECK:         %[[SUM:.*]] = "jaxpr.add"
// CHECK-NEXT:    %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[SUM]])
// CHECK-NEXT:    "jaxpr.gather"(%[[STORED]],
func.func private @gathered(%x: tensor<64xf32>, %i: tensor<5000x1xi32>) -> tensor<5000xf32> {
  %0 = "jaxpr.mul"(%x, %x) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %1 = "jaxpr.exp"(%0) : (tensor<64xf32>) -> tensor<64xf32>
  %2 = "jaxpr.mul"(%1, %x) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %3 = "jaxpr.mul"(%2, %x) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %4 = "jaxpr.add"(%3, %x) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %5 = "jaxpr.gather"(%4, %i) {dimension_numbers = {GatherDimensionNumbers = {collapsed_slice_dims = array<i64: 0>, offset_dims = [], start_index_map = array<i64: 0>}}, mode = {GatherScatterMode = "CLIP"}, slice_sizes = array<i64: 1>} : (tensor<64xf32>, tensor<5000x1xi32>) -> tensor<5000xf32>
  return %5 : tensor<5000xf32>
}

// A sum of nine arrays or more is stored part by part.
// CHECK-LABEL: func.func private @many(
// CHECK-COUNT-8:  "jaxpr.add"
// CHECK-NEXT:     "jaxpr.{{jit|optimization_barrier}}"
// CHECK-NEXT:     %[[LAST:.*]] = "jaxpr.add"
// CHECK-NEXT:     return %[[LAST]]
// REMARK: remark: [jaxpr-materialize-shared] stored because the terms of this sum read more than 8 arrays
func.func private @many(%x0: tensor<1024xf32>, %x1: tensor<1024xf32>, %x2: tensor<1024xf32>, %x3: tensor<1024xf32>, %x4: tensor<1024xf32>, %x5: tensor<1024xf32>, %x6: tensor<1024xf32>, %x7: tensor<1024xf32>, %x8: tensor<1024xf32>, %x9: tensor<1024xf32>) -> tensor<1024xf32> {
  %1 = "jaxpr.add"(%x0, %x1) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %2 = "jaxpr.add"(%1, %x2) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %3 = "jaxpr.add"(%2, %x3) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %4 = "jaxpr.add"(%3, %x4) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %5 = "jaxpr.add"(%4, %x5) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %6 = "jaxpr.add"(%5, %x6) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %7 = "jaxpr.add"(%6, %x7) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %8 = "jaxpr.add"(%7, %x8) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %9 = "jaxpr.add"(%8, %x9) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %9 : tensor<1024xf32>
}

// A sum of arrays with few elements is not stored.
// CHECK-LABEL: func.func private @many_small(
// CHECK-COUNT-9:  "jaxpr.add"
// CHECK-NEXT:     return
func.func private @many_small(%x0: tensor<1023xf32>, %x1: tensor<1023xf32>, %x2: tensor<1023xf32>, %x3: tensor<1023xf32>, %x4: tensor<1023xf32>, %x5: tensor<1023xf32>, %x6: tensor<1023xf32>, %x7: tensor<1023xf32>, %x8: tensor<1023xf32>, %x9: tensor<1023xf32>) -> tensor<1023xf32> {
  %1 = "jaxpr.add"(%x0, %x1) : (tensor<1023xf32>, tensor<1023xf32>) -> tensor<1023xf32>
  %2 = "jaxpr.add"(%1, %x2) : (tensor<1023xf32>, tensor<1023xf32>) -> tensor<1023xf32>
  %3 = "jaxpr.add"(%2, %x3) : (tensor<1023xf32>, tensor<1023xf32>) -> tensor<1023xf32>
  %4 = "jaxpr.add"(%3, %x4) : (tensor<1023xf32>, tensor<1023xf32>) -> tensor<1023xf32>
  %5 = "jaxpr.add"(%4, %x5) : (tensor<1023xf32>, tensor<1023xf32>) -> tensor<1023xf32>
  %6 = "jaxpr.add"(%5, %x6) : (tensor<1023xf32>, tensor<1023xf32>) -> tensor<1023xf32>
  %7 = "jaxpr.add"(%6, %x7) : (tensor<1023xf32>, tensor<1023xf32>) -> tensor<1023xf32>
  %8 = "jaxpr.add"(%7, %x8) : (tensor<1023xf32>, tensor<1023xf32>) -> tensor<1023xf32>
  %9 = "jaxpr.add"(%8, %x9) : (tensor<1023xf32>, tensor<1023xf32>) -> tensor<1023xf32>
  return %9 : tensor<1023xf32>
}

// A call reads the arrays that its result reads in the called function: eleven arrays together.
// CHECK-LABEL: func.func private @many_by_calls(
// CHECK-NEXT:     %[[SIX:.*]] = "jaxpr.jit"
// CHECK-NEXT:     %[[ALL:.*]] = "jaxpr.jit"(%[[SIX]]
// CHECK-NEXT:     %[[STORED:.*]] = "jaxpr.{{jit|optimization_barrier}}"(%[[ALL]])
// CHECK-NEXT:     return %[[STORED]]
func.func private @many_by_calls(%x0: tensor<1024xf32>, %x1: tensor<1024xf32>, %x2: tensor<1024xf32>, %x3: tensor<1024xf32>, %x4: tensor<1024xf32>, %x5: tensor<1024xf32>, %x6: tensor<1024xf32>, %x7: tensor<1024xf32>, %x8: tensor<1024xf32>, %x9: tensor<1024xf32>, %x10: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = "jaxpr.jit"(%x0, %x1, %x2, %x3, %x4, %x5) {jaxpr = @add_five, name = "add"} : (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %1 = "jaxpr.jit"(%0, %x6, %x7, %x8, %x9, %x10) {jaxpr = @add_five, name = "add"} : (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %1 : tensor<1024xf32>
}

func.func private @add_five(%x0: tensor<1024xf32>, %x1: tensor<1024xf32>, %x2: tensor<1024xf32>, %x3: tensor<1024xf32>, %x4: tensor<1024xf32>, %x5: tensor<1024xf32>) -> tensor<1024xf32> {
  %1 = "jaxpr.add"(%x0, %x1) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %2 = "jaxpr.add"(%1, %x2) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %3 = "jaxpr.add"(%2, %x3) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %4 = "jaxpr.add"(%3, %x4) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %5 = "jaxpr.add"(%4, %x5) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %5 : tensor<1024xf32>
}
