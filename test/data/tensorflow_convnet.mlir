// What TensorFlow 2.21.0 compiles this function to, on a CPU:
//
//     @tf.function(jit_compile=True)
//     def loss(x, k, b, w, c):
//         h = tf.nn.relu(tf.nn.conv2d(x, k, strides=1, padding="SAME") + b)
//         h = tf.nn.max_pool2d(h, 2, 2, "VALID")
//         h = tf.reshape(h, (2, -1)) @ w + c
//         h = tf.nn.sigmoid(h) * tf.nn.softplus(h)
//         losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 3], logits=h)
//         return tf.reduce_mean(losses)
//
//     loss.experimental_get_compiler_ir(x, k, b, w, c)(stage="stablehlo")
//
// tensorflow_convnet.npz has arguments, the loss, and what tf.GradientTape gives for each of them.
module @a_inference_loss_30__.7 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func private @max_F32.2(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.maximum %arg0, %arg1 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @max_float_.3(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.maximum %arg0, %arg1 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @add_float_.4(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @add_float_.5(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @Mean_reduction.6(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @main(%arg0: tensor<2x6x6x1xf32>, %arg1: tensor<3x3x1x4xf32>, %arg2: tensor<4xf32>, %arg3: tensor<36x5xf32>, %arg4: tensor<5xf32>) -> tensor<f32> {
    %0 = stablehlo.reshape %arg0 : (tensor<2x6x6x1xf32>) -> tensor<2x6x6x1xf32>
    %1 = stablehlo.reshape %arg1 : (tensor<3x3x1x4xf32>) -> tensor<3x3x1x4xf32>
    %2 = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x6x6x1xf32>, tensor<3x3x1x4xf32>) -> tensor<2x6x6x4xf32>
    %3 = stablehlo.reshape %arg2 : (tensor<4xf32>) -> tensor<4xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [3] : (tensor<4xf32>) -> tensor<2x6x6x4xf32>
    %5 = stablehlo.add %2, %4 : tensor<2x6x6x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6x6x4xf32>
    %7 = stablehlo.maximum %5, %6 : tensor<2x6x6x4xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %8 = "stablehlo.reduce_window"(%7, %cst_0) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %74 = stablehlo.maximum %arg5, %arg6 : tensor<f32>
      stablehlo.return %74 : tensor<f32>
    }) : (tensor<2x6x6x4xf32>, tensor<f32>) -> tensor<2x3x3x4xf32>
    %9 = stablehlo.reshape %8 : (tensor<2x3x3x4xf32>) -> tensor<2x36xf32>
    %10 = stablehlo.reshape %arg3 : (tensor<36x5xf32>) -> tensor<36x5xf32>
    %11 = stablehlo.dot %9, %10, precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<2x36xf32>, tensor<36x5xf32>) -> tensor<2x5xf32>
    %12 = stablehlo.transpose %11, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5xf32>
    %13 = stablehlo.reshape %arg4 : (tensor<5xf32>) -> tensor<5xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [1] : (tensor<5xf32>) -> tensor<2x5xf32>
    %15 = stablehlo.add %12, %14 : tensor<2x5xf32>
    %16 = stablehlo.logistic %15 : tensor<2x5xf32>
    %cst_1 = stablehlo.constant dense<1.1920929E-7> : tensor<f32>
    %17 = stablehlo.log %cst_1 : tensor<f32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %18 = stablehlo.add %17, %cst_2 : tensor<f32>
    %19 = stablehlo.negate %18 : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %21 = stablehlo.compare GT, %15, %20 : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %22 = stablehlo.broadcast_in_dim %18, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %23 = stablehlo.compare LT, %15, %22 : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %24 = stablehlo.exponential %15 : tensor<2x5xf32>
    %25 = stablehlo.log_plus_one %24 : tensor<2x5xf32>
    %26 = stablehlo.select %23, %24, %25 : tensor<2x5xi1>, tensor<2x5xf32>
    %27 = stablehlo.select %21, %15, %26 : tensor<2x5xi1>, tensor<2x5xf32>
    %28 = stablehlo.multiply %16, %27 : tensor<2x5xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %29 = stablehlo.reduce(%28 init: %cst_3) applies stablehlo.maximum across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0] : (tensor<2xf32>) -> tensor<2x5xf32>
    %31 = stablehlo.subtract %28, %30 : tensor<2x5xf32>
    %32 = stablehlo.exponential %31 : tensor<2x5xf32>
    %33 = stablehlo.convert %32 : tensor<2x5xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.reduce(%33 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %35 = stablehlo.convert %34 : tensor<2xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0] : (tensor<2xf32>) -> tensor<2x5xf32>
    %37 = stablehlo.divide %32, %36 : tensor<2x5xf32>
    %c = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
    %38 = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<2xi32>) -> tensor<2x5xi32>
    %39 = stablehlo.iota dim = 1 : tensor<2x5xi32>
    %40 = stablehlo.compare EQ, %38, %39 : (tensor<2x5xi32>, tensor<2x5xi32>) -> tensor<2x5xi1>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %43 = stablehlo.select %40, %41, %42 : tensor<2x5xi1>, tensor<2x5xf32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %44 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %45 = stablehlo.compare LE, %44, %c : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_8 = stablehlo.constant dense<5> : tensor<i32>
    %46 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %47 = stablehlo.compare LT, %c, %46 : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %48 = stablehlo.and %45, %47 : tensor<2xi1>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %cst_10 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %51 = stablehlo.select %48, %49, %50 : tensor<2xi1>, tensor<2xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0] : (tensor<2xf32>) -> tensor<2x5xf32>
    %53 = stablehlo.add %43, %52 : tensor<2x5xf32>
    %54 = stablehlo.subtract %37, %53 : tensor<2x5xf32>
    %55 = stablehlo.negate %53 : tensor<2x5xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %57 = stablehlo.compare EQ, %53, %56 : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %58 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x5xf32>
    %59 = stablehlo.log %35 : tensor<2xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0] : (tensor<2xf32>) -> tensor<2x5xf32>
    %61 = stablehlo.subtract %31, %60 : tensor<2x5xf32>
    %62 = stablehlo.select %57, %58, %61 : tensor<2x5xi1>, tensor<2x5xf32>
    %63 = stablehlo.multiply %55, %62 : tensor<2x5xf32>
    %64 = stablehlo.convert %63 : tensor<2x5xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %65 = stablehlo.reduce(%64 init: %cst_13) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %66 = stablehlo.convert %65 : tensor<2xf32>
    %67 = stablehlo.convert %66 : tensor<2xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.convert %cst_14 : tensor<f32>
    %69 = stablehlo.reduce(%67 init: %68) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
    %c_15 = stablehlo.constant dense<2> : tensor<i32>
    %70 = stablehlo.convert %c_15 : (tensor<i32>) -> tensor<f32>
    %71 = stablehlo.divide %69, %70 : tensor<f32>
    %72 = stablehlo.convert %71 : tensor<f32>
    %73 = stablehlo.reshape %72 : (tensor<f32>) -> tensor<f32>
    return %73 : tensor<f32>
  }
}
