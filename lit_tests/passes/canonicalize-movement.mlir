// Canonicalization of data movement: index maps compose, so two moves become one move, or none.

// RUN: jaxmlir-opt --jaxpr-canonicalize %s -o %t
// RUN: FileCheck %s < %t
// RUN: jaxmlir-opt --jaxpr-canonicalize %t -o %t.again
// RUN: diff %t %t.again
// RUN: jaxmlir-run %s --args '[[0, 1, 2], [3, 4, 5]], [6, 7, 8, 9]' > %t.before
// RUN: jaxmlir-run %t --args '[[0, 1, 2], [3, 4, 5]], [6, 7, 8, 9]' > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --check-prefix=EXEC < %t.after

func.func public @main(%x: tensor<2x3xi32>, %v: tensor<4xi32>) -> (tensor<2x3xi32>, tensor<2x3xi32>, tensor<6xi32>, tensor<2x3xi32>, tensor<2x4x3xi32>, tensor<2x3xi32>, tensor<1xi32>, tensor<2xi32>, tensor<2xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi8>, tensor<4xi32>, tensor<4xi32>, tensor<3x2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<4x2xi32>, tensor<2x3xi32>, tensor<2x3xi32>) {
  // CHECK: func.func public @main(%[[X:.*]]: tensor<2x3xi32>, %[[V:.*]]: tensor<4xi32>)

  // transpose[1,0](transpose[1,0](x)) = transpose[0,1](x) = x
  %0 = "jaxpr.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<2x3xi32>) -> tensor<3x2xi32>
  %1 = "jaxpr.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<3x2xi32>) -> tensor<2x3xi32>
  // EXEC: result[0]: {{.*}}[0, 1, 2]

  // rev[0](rev[0,1](x)) = rev[1](x)
  // CHECK-NEXT: %[[REV:.*]] = "jaxpr.rev"(%[[X]]) {dimensions = array<i64: 1>}
  %2 = "jaxpr.rev"(%x) {dimensions = array<i64: 0, 1>} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %3 = "jaxpr.rev"(%2) {dimensions = array<i64: 0>} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  // EXEC: result[1]: {{.*}}[2, 1, 0]

  // reshape(reshape(x)) = reshape(x), or x if x has the result's shape
  // CHECK-NEXT: %[[FLAT:.*]] = "jaxpr.reshape"(%[[X]]) {new_sizes = array<i64: 6>}
  %4 = "jaxpr.reshape"(%x) {new_sizes = array<i64: 3, 2>} : (tensor<2x3xi32>) -> tensor<3x2xi32>
  %5 = "jaxpr.reshape"(%4) {new_sizes = array<i64: 6>} : (tensor<3x2xi32>) -> tensor<6xi32>
  %6 = "jaxpr.reshape"(%5) {new_sizes = array<i64: 2, 3>} : (tensor<6xi32>) -> tensor<2x3xi32>
  // EXEC: result[2]: {{.*}}[0, 1, 2, 3, 4, 5]

  // squeeze[0](broadcast_in_dim(broadcast_in_dim(x))) = broadcast_in_dim(x)
  // CHECK-NEXT: %[[SPREAD:.*]] = "jaxpr.broadcast_in_dim"(%[[X]]) {broadcast_dimensions = array<i64: 0, 2>, shape = array<i64: 2, 4, 3>}
  %7 = "jaxpr.broadcast_in_dim"(%x) {broadcast_dimensions = array<i64: 0, 2>, shape = array<i64: 2, 1, 3>} : (tensor<2x3xi32>) -> tensor<2x1x3xi32>
  %8 = "jaxpr.broadcast_in_dim"(%7) {broadcast_dimensions = array<i64: 1, 2, 3>, shape = array<i64: 1, 2, 4, 3>} : (tensor<2x1x3xi32>) -> tensor<1x2x4x3xi32>
  %9 = "jaxpr.squeeze"(%8) {dimensions = array<i64: 0>} : (tensor<1x2x4x3xi32>) -> tensor<2x4x3xi32>

  // squeeze[1](squeeze[0](broadcast_in_dim(x))) = x
  %10 = "jaxpr.broadcast_in_dim"(%x) {broadcast_dimensions = array<i64: 1, 3>, shape = array<i64: 1, 2, 1, 3>} : (tensor<2x3xi32>) -> tensor<1x2x1x3xi32>
  %11 = "jaxpr.squeeze"(%10) {dimensions = array<i64: 0>} : (tensor<1x2x1x3xi32>) -> tensor<2x1x3xi32>
  %12 = "jaxpr.squeeze"(%11) {dimensions = array<i64: 1>} : (tensor<2x1x3xi32>) -> tensor<2x3xi32>

  // slice[1:2](slice[0:4:2](v)) = slice[2:3:2](v)
  // CHECK-NEXT: %[[PART:.*]] = "jaxpr.slice"(%[[V]]) {limit_indices = array<i64: 3>, start_indices = array<i64: 2>, strides = array<i64: 2>}
  %13 = "jaxpr.slice"(%v) {start_indices = array<i64: 0>, limit_indices = array<i64: 4>, strides = array<i64: 2>} : (tensor<4xi32>) -> tensor<2xi32>
  %14 = "jaxpr.slice"(%13) {start_indices = array<i64: 1>, limit_indices = array<i64: 2>} : (tensor<2xi32>) -> tensor<1xi32>
  // EXEC: result[6]: {{.*}}[8]

  // slice(concatenate(v, v)) = slice(v)
  // CHECK-NEXT: %[[PIECE:.*]] = "jaxpr.slice"(%[[V]]) {limit_indices = array<i64: 3>, start_indices = array<i64: 1>}
  %15 = "jaxpr.concatenate"(%v, %v) {dimension = 0 : i64} : (tensor<4xi32>, tensor<4xi32>) -> tensor<8xi32>
  %16 = "jaxpr.slice"(%15) {start_indices = array<i64: 5>, limit_indices = array<i64: 7>} : (tensor<8xi32>) -> tensor<2xi32>
  // EXEC: result[7]: {{.*}}[7, 8]

  // dynamic_slice(v, 9) = slice[2:4](v): an index out of bounds is moved inside
  // CHECK-NEXT: %[[LAST:.*]] = "jaxpr.slice"(%[[V]]) {limit_indices = array<i64: 4>, start_indices = array<i64: 2>}
  %17 = "jaxpr.constant"() {value = dense<9> : tensor<i32>} : () -> tensor<i32>
  %18 = "jaxpr.dynamic_slice"(%v, %17) {slice_sizes = array<i64: 2>} : (tensor<4xi32>, tensor<i32>) -> tensor<2xi32>
  // EXEC: result[8]: {{.*}}[8, 9]

  // dynamic_update_slice(u, v, i) = v if all of u is overwritten
  %19 = "jaxpr.neg"(%v) : (tensor<4xi32>) -> tensor<4xi32>
  %20 = "jaxpr.dynamic_update_slice"(%19, %v, %17) : (tensor<4xi32>, tensor<4xi32>, tensor<i32>) -> tensor<4xi32>

  // pad[(0, 0, 0)](v, c) = v, concatenate(v) = v
  %21 = "jaxpr.pad"(%v, %17) {padding_config = [array<i64: 0, 0, 0>]} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %22 = "jaxpr.concatenate"(%21) {dimension = 0 : i64} : (tensor<4xi32>) -> tensor<4xi32>

  // convert[i8](convert[i16](convert[bool](v))) = convert[i8](convert[bool](v)): i16 holds 0 and 1
  // CHECK-NEXT: %[[TRUTH:.*]] = "jaxpr.convert_element_type"(%[[V]]) {new_dtype = i1}
  // CHECK-NEXT: %[[SMALL:.*]] = "jaxpr.convert_element_type"(%[[TRUTH]]) {new_dtype = i8}
  %23 = "jaxpr.convert_element_type"(%v) {new_dtype = i1} : (tensor<4xi32>) -> tensor<4xi1>
  %24 = "jaxpr.convert_element_type"(%23) {new_dtype = i16} : (tensor<4xi1>) -> tensor<4xi16>
  %25 = "jaxpr.convert_element_type"(%24) {new_dtype = i8} : (tensor<4xi16>) -> tensor<4xi8>
  // EXEC: result[11]: {{.*}}[1, 1, 1, 1]

  // bitcast[i32](bitcast[f32](v)) = v
  %26 = "jaxpr.bitcast_convert_type"(%v) {new_dtype = f32} : (tensor<4xi32>) -> tensor<4xf32>
  %27 = "jaxpr.bitcast_convert_type"(%26) {new_dtype = i32} : (tensor<4xf32>) -> tensor<4xi32>

  // lt(iota, 0) = 0: a row number is never negative, so it is the index as it is
  // CHECK-NEXT: %[[ROWS:.*]] = "jaxpr.iota"()
  %28 = "jaxpr.iota"() {dimension = 0 : i64, dtype = i32, shape = array<i64: 4>} : () -> tensor<4xi32>
  %29 = "jaxpr.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %30 = "jaxpr.lt"(%28, %29) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi1>
  %31 = "jaxpr.select_n"(%30, %28, %v) : (tensor<4xi1>, tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  // EXEC: result[13]: {{.*}}[0, 1, 2, 3]

  // squeeze[1](transpose[2,1,0](reshape(x))) = transpose[1,0](squeeze[1](reshape(x))) = transpose[1,0](x)
  // CHECK-NEXT: %[[TURNED:.*]] = "jaxpr.transpose"(%[[X]]) {permutation = array<i64: 1, 0>}
  %32 = "jaxpr.reshape"(%x) {new_sizes = array<i64: 2, 1, 3>} : (tensor<2x3xi32>) -> tensor<2x1x3xi32>
  %33 = "jaxpr.transpose"(%32) {permutation = array<i64: 2, 1, 0>} : (tensor<2x1x3xi32>) -> tensor<3x1x2xi32>
  %34 = "jaxpr.squeeze"(%33) {dimensions = array<i64: 1>} : (tensor<3x1x2xi32>) -> tensor<3x2xi32>
  // EXEC: result[14]: {{.*}}[0, 3]

  // squeeze[0](slice[1:2](transpose[1,0](x))) = squeeze[1](slice[:, 1:2](x))
  // CHECK-NEXT: %[[COLUMN:.*]] = "jaxpr.slice"(%[[X]]) {limit_indices = array<i64: 2, 2>, start_indices = array<i64: 0, 1>}
  // CHECK-NEXT: %[[SECOND:.*]] = "jaxpr.squeeze"(%[[COLUMN]]) {dimensions = array<i64: 1>}
  %35 = "jaxpr.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<2x3xi32>) -> tensor<3x2xi32>
  %36 = "jaxpr.slice"(%35) {start_indices = array<i64: 1, 0>, limit_indices = array<i64: 2, 2>} : (tensor<3x2xi32>) -> tensor<1x2xi32>
  %37 = "jaxpr.squeeze"(%36) {dimensions = array<i64: 0>} : (tensor<1x2xi32>) -> tensor<2xi32>
  // EXEC: result[15]: {{.*}}[1, 4]

  // unstack[0](transpose[1,0](x)) = unstack[1](x)
  // CHECK-NEXT: %[[COLUMNS:.*]]:3 = "jaxpr.unstack"(%[[X]]) {axis = 1 : i64}
  %38:3 = "jaxpr.unstack"(%35) {axis = 0 : i64} : (tensor<3x2xi32>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>)
  // EXEC: result[16]: {{.*}}[2, 5]

  // transpose[1,0](stack[0](v, v)) = stack[1](v, v)
  // CHECK-NEXT: %[[STACK:.*]] = "jaxpr.stack"(%[[V]], %[[V]]) {axis = 1 : i64}
  %39 = "jaxpr.stack"(%v, %v) {axis = 0 : i64} : (tensor<4xi32>, tensor<4xi32>) -> tensor<2x4xi32>
  %40 = "jaxpr.transpose"(%39) {permutation = array<i64: 1, 0>} : (tensor<2x4xi32>) -> tensor<4x2xi32>
  // EXEC: result[17]: {{.*}}[6, 6]

  // split(x) = x if there is only one piece, and convert(x) = x, also over a mesh without axes
  %41 = "jaxpr.split"(%x) {axis = 1 : i64, sizes = array<i64: 3>} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %42 = "jaxpr.convert_element_type"(%41) {new_dtype = i32, sharding = {NamedSharding = {mesh = {AbstractMesh = {axis_names = [], axis_sizes = [], axis_types = []}}, spec = {PartitionSpec = [none, none]}}}} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  // EXEC: result[18]: {{.*}}[0, 1, 2]

  // reduce_sum[0](reshape[1, 2, 3](x)) = x
  %43 = "jaxpr.reshape"(%x) {new_sizes = array<i64: 1, 2, 3>} : (tensor<2x3xi32>) -> tensor<1x2x3xi32>
  %44 = "jaxpr.reduce_sum"(%43) {axes = array<i64: 0>} : (tensor<1x2x3xi32>) -> tensor<2x3xi32>
  // EXEC: result[19]: {{.*}}[0, 1, 2]

  // CHECK-NEXT: return %[[X]], %[[REV]], %[[FLAT]], %[[X]], %[[SPREAD]], %[[X]], %[[PART]], %[[PIECE]], %[[LAST]], %[[V]], %[[V]], %[[SMALL]], %[[V]], %[[ROWS]], %[[TURNED]], %[[SECOND]], %[[COLUMNS]]#2, %[[STACK]], %[[X]], %[[X]]
  return %1, %3, %5, %6, %9, %12, %14, %16, %18, %20, %22, %25, %27, %31, %34, %37, %38#2, %40, %42, %44 : tensor<2x3xi32>, tensor<2x3xi32>, tensor<6xi32>, tensor<2x3xi32>, tensor<2x4x3xi32>, tensor<2x3xi32>, tensor<1xi32>, tensor<2xi32>, tensor<2xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi8>, tensor<4xi32>, tensor<4xi32>, tensor<3x2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<4x2xi32>, tensor<2x3xi32>, tensor<2x3xi32>
}
