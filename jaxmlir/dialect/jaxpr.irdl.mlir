// The jaxpr dialect for stock MLIR tools: mlir-opt --irdl-file=jaxpr.irdl.mlir program.mlir
// Generated from the op table, jaxmlir/dialect/ops, by tools/generate_dialect.py. Do not edit.
//
// IRDL states how many operands and results an op has, and which attributes it cannot do without.
// What it cannot state: attributes that may be absent, and a list of operands of any length whose
// types differ. IRDL takes all members of a variadic list to have one type, so a program with mixed
// lists is first rewritten by jaxmlir/cli/stock_verify.py, which casts their members to !jaxpr.any.

irdl.dialect @jaxpr {
  // A random key of an implementation, as in tensor<4x!jaxpr.key<"fry">>.
  irdl.type @key {
    %0 = irdl.base "#builtin.string"
    irdl.parameters(impl: %0)
  }

  // A mutable reference to a value, as in !jaxpr.ref<tensor<4xf32>>.
  irdl.type @ref {
    %0 = irdl.any
    irdl.parameters(value: %0)
  }

  // Orders side effects; holds no data.
  irdl.type @token

  // The element type of the tangents of integers; it has one value and holds no data.
  irdl.type @float0

  // The element type of what only a kernel has, a semaphore, as a record of its dtype.
  irdl.type @extended {
    %0 = irdl.base "#builtin.dictionary"
    irdl.parameters(dtype: %0)
  }

  // What no other type describes, by its name and the handle of JAX's object in this process.
  irdl.type @aval {
    %0 = irdl.base "#builtin.string"
    %1 = irdl.base "#builtin.string"
    irdl.parameters(name: %0, handle: %1)
  }

  // Any type: only where jaxmlir/cli/stock_verify.py hides the types of a mixed list.
  irdl.type @any

  // Elementwise sum, x + y.
  // Traits: elementwise, additive, commutative.
  irdl.operation @add {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Sum of two cotangents, x + y; transposition accumulates cotangents by it.
  // Traits: elementwise, additive, commutative.
  irdl.operation @add_any {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Elementwise difference, x - y.
  // Traits: elementwise, additive.
  irdl.operation @sub {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Elementwise product, x * y.
  // Traits: elementwise, commutative.
  irdl.operation @mul {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // High half of the double-width integer product, (x * y) >> bits.
  // Traits: elementwise.
  irdl.operation @mulhi {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Elementwise quotient, x / y; for integers, rounded towards zero.
  // Traits: elementwise.
  irdl.operation @div {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Remainder of the division towards zero, x - y * trunc(x / y); it has the sign of x.
  // Traits: elementwise.
  irdl.operation @rem {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Elementwise power, x ** y.
  // Traits: elementwise, transcendental.
  irdl.operation @pow {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // The larger of x and y; NaN if either is NaN.
  // Traits: elementwise.
  irdl.operation @max {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // The smaller of x and y; NaN if either is NaN.
  // Traits: elementwise.
  irdl.operation @min {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x limited to an interval, min(max(x, lo), hi); operands (lo, x, hi).
  // Traits: elementwise.
  irdl.operation @clamp {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %0, o1: %1, o2: %2)
    irdl.results(r0: %3)
  }

  // Negation, -x.
  // Traits: elementwise.
  irdl.operation @neg {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Absolute value, |x|; for a complex number, its modulus.
  // Traits: elementwise.
  irdl.operation @abs {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Sign, x / |x|, and 0 at 0.
  // Traits: elementwise.
  irdl.operation @sign {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Square, x * x.
  // Traits: elementwise.
  irdl.operation @square {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // 1 - x * x, without cancellation near |x| = 1.
  // Traits: elementwise.
  irdl.operation @one_minus_square {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Power with a static integer exponent, x ** y.
  // Traits: elementwise.
  irdl.operation @integer_pow {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"y" = %0}
  }

  // Polynomial in the first operand, a0 + x (a1 + x (a2 + ...)); operands (x, a0, a1, ...).
  // Traits: elementwise.
  irdl.operation @polynomial {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %0)
    irdl.results(r0: %1)
  }

  // The largest integer <= x.
  // Traits: elementwise.
  irdl.operation @floor {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // The smallest integer >= x.
  // Traits: elementwise.
  irdl.operation @ceil {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // The nearest integer; rounding_method says where halves go.
  // Traits: elementwise.
  irdl.operation @round {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"rounding_method" = %0}
  }

  // Whether x is neither infinite nor NaN.
  // Traits: elementwise.
  irdl.operation @is_finite {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // The next float after x in the direction of y.
  // Traits: elementwise.
  irdl.operation @nextafter {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x rounded to a float format of the given widths, kept in its own dtype.
  // Traits: elementwise.
  irdl.operation @reduce_precision {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"exponent_bits" = %0, "mantissa_bits" = %1}
  }

  // Exponential, e ** x.
  // Traits: elementwise, transcendental.
  irdl.operation @exp {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Power of two, 2 ** x.
  // Traits: elementwise, transcendental.
  irdl.operation @exp2 {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // e ** x - 1, accurate near 0.
  // Traits: elementwise, transcendental.
  irdl.operation @expm1 {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Natural logarithm, log(x).
  // Traits: elementwise, transcendental.
  irdl.operation @log {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // log(1 + x), accurate near 0.
  // Traits: elementwise, transcendental.
  irdl.operation @log1p {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Logarithm to base two, log(x) / log(2).
  // Traits: elementwise, transcendental.
  irdl.operation @log2 {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Logistic function, 1 / (1 + e ** -x).
  // Traits: elementwise, transcendental.
  irdl.operation @logistic {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Square root, x ** (1/2).
  // Traits: elementwise, transcendental.
  irdl.operation @sqrt {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Reciprocal square root, x ** (-1/2).
  // Traits: elementwise, transcendental.
  irdl.operation @rsqrt {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Real cube root, sign(x) |x| ** (1/3).
  // Traits: elementwise, transcendental.
  irdl.operation @cbrt {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Sine, sin(x).
  // Traits: elementwise, transcendental.
  irdl.operation @sin {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Cosine, cos(x).
  // Traits: elementwise, transcendental.
  irdl.operation @cos {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Tangent, sin(x) / cos(x).
  // Traits: elementwise, transcendental.
  irdl.operation @tan {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Arc sine, the y in [-pi/2, pi/2] with sin(y) = x.
  // Traits: elementwise, transcendental.
  irdl.operation @asin {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Arc cosine, the y in [0, pi] with cos(y) = x.
  // Traits: elementwise, transcendental.
  irdl.operation @acos {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Arc tangent, the y in (-pi/2, pi/2) with tan(y) = x.
  // Traits: elementwise, transcendental.
  irdl.operation @atan {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Angle of the point (y, x), the operands in this order; in [-pi, pi].
  // Traits: elementwise, transcendental.
  irdl.operation @atan2 {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Hyperbolic sine, (e ** x - e ** -x) / 2.
  // Traits: elementwise, transcendental.
  irdl.operation @sinh {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Hyperbolic cosine, (e ** x + e ** -x) / 2.
  // Traits: elementwise, transcendental.
  irdl.operation @cosh {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Hyperbolic tangent, sinh(x) / cosh(x).
  // Traits: elementwise, transcendental.
  irdl.operation @tanh {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Inverse hyperbolic sine, the y with sinh(y) = x.
  // Traits: elementwise, transcendental.
  irdl.operation @asinh {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Inverse hyperbolic cosine, the y >= 0 with cosh(y) = x.
  // Traits: elementwise, transcendental.
  irdl.operation @acosh {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Inverse hyperbolic tangent, the y with tanh(y) = x.
  // Traits: elementwise, transcendental.
  irdl.operation @atanh {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // The complex number x + iy, from its parts.
  // Traits: elementwise.
  irdl.operation @complex {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Real part.
  // Traits: elementwise.
  irdl.operation @real {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Imaginary part.
  // Traits: elementwise.
  irdl.operation @imag {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Complex conjugate, x - iy; linear over the reals.
  // Traits: elementwise.
  irdl.operation @conj {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Bitwise complement, ~x; for booleans, the negation.
  // Traits: elementwise.
  irdl.operation @not {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Bitwise and, x & y.
  // Traits: elementwise, commutative.
  irdl.operation @and {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Bitwise or, x | y.
  // Traits: elementwise, commutative.
  irdl.operation @or {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Bitwise exclusive or, x ^ y.
  // Traits: elementwise, commutative.
  irdl.operation @xor {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x << y; 0 if y is at least the width.
  // Traits: elementwise.
  irdl.operation @shift_left {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x >> y, filled with the sign bit.
  // Traits: elementwise.
  irdl.operation @shift_right_arithmetic {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x >> y, filled with zeros.
  // Traits: elementwise.
  irdl.operation @shift_right_logical {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Number of bits of x that are set.
  // Traits: elementwise.
  irdl.operation @population_count {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Number of leading zero bits of x.
  // Traits: elementwise.
  irdl.operation @clz {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // x == y; false where either is NaN.
  // Traits: elementwise, commutative.
  irdl.operation @eq {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x != y; true where either is NaN.
  // Traits: elementwise, commutative.
  irdl.operation @ne {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x < y.
  // Traits: elementwise.
  irdl.operation @lt {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x <= y.
  // Traits: elementwise.
  irdl.operation @le {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x > y.
  // Traits: elementwise.
  irdl.operation @gt {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x >= y.
  // Traits: elementwise.
  irdl.operation @ge {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x == y in the total order of floats: NaN equals NaN, -0 is not 0.
  // Traits: elementwise.
  irdl.operation @eq_to {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x < y in the total order of floats: -0 before 0, NaN last.
  // Traits: elementwise.
  irdl.operation @lt_to {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // x <= y in the total order of floats: -0 before 0, NaN last.
  // Traits: elementwise.
  irdl.operation @le_to {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Elementwise choice cases[which]; operands (which, *cases); which is boolean or integer.
  // Traits: elementwise.
  irdl.operation @select_n {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %0)
    irdl.results(r0: %1)
  }

  // Error function, 2/sqrt(pi) times the integral of exp(-t**2) over [0, x].
  // Traits: elementwise, transcendental.
  irdl.operation @erf {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Complementary error function, 1 - erf(x).
  // Traits: elementwise, transcendental.
  irdl.operation @erfc {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Inverse error function, the y with erf(y) = x.
  // Traits: elementwise, transcendental.
  irdl.operation @erf_inv {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Logarithm of the absolute value of the gamma function, log|gamma(x)|.
  // Traits: elementwise, transcendental.
  irdl.operation @lgamma {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Digamma function, the derivative of lgamma.
  // Traits: elementwise, transcendental.
  irdl.operation @digamma {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Polygamma function of order m at x, the m-th derivative of digamma; operands (m, x).
  // Traits: elementwise, transcendental.
  irdl.operation @polygamma {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Regularised lower incomplete gamma function P(a, x).
  // Traits: elementwise, transcendental.
  irdl.operation @igamma {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).
  // Traits: elementwise, transcendental.
  irdl.operation @igammac {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Derivative of igamma(a, x) with respect to a.
  // Traits: elementwise, transcendental.
  irdl.operation @igamma_grad_a {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Regularised incomplete beta function I_x(a, b); operands (a, b, x).
  // Traits: elementwise, transcendental.
  irdl.operation @regularized_incomplete_beta {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %0, o1: %1, o2: %2)
    irdl.results(r0: %3)
  }

  // Scaled modified Bessel function of order 0, exp(-|x|) I0(x).
  // Traits: elementwise, transcendental.
  irdl.operation @bessel_i0e {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Scaled modified Bessel function of order 1, exp(-|x|) I1(x).
  // Traits: elementwise, transcendental.
  irdl.operation @bessel_i1e {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Hurwitz zeta function, the sum over k >= 0 of (k + q) ** -x; operands (x, q).
  // Traits: elementwise, transcendental.
  irdl.operation @zeta {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // A constant array: `value`, or the entry `name` in the side table of large constants.
  irdl.operation @constant {
    %0 = irdl.any
    irdl.results(r0: %0)
  }

  // x[i] = i along one dimension, constant along the others.
  irdl.operation @iota {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.results(r0: %3)
    irdl.attributes {"dtype" = %0, "shape" = %1, "dimension" = %2}
  }

  // The high and the low 32 bits of a 64-bit row-major counter of the given shape.
  irdl.operation @iota_2x32_shape {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.results(r0: %1, r1: %2)
    irdl.attributes {"shape" = %0}
  }

  // An array whose elements are not defined.
  irdl.operation @empty {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.results(r0: %2)
    irdl.attributes {"shape" = %0, "dtype" = %1}
  }

  // A scalar placeholder in a memory space, whose value is not defined.
  irdl.operation @empty2 {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"dtype" = %0}
  }

  // Zeros of the operand's shape and dtype.
  irdl.operation @zeros_like {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Repeats the operand: its dimension i becomes result dimension broadcast_dimensions[i].
  // Traits: movement, view.
  irdl.operation @broadcast_in_dim {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"shape" = %0, "broadcast_dimensions" = %1}
  }

  // The same elements in row-major order in another shape; `dimensions` permutes first.
  // Traits: movement, reshape, view.
  irdl.operation @reshape {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"new_sizes" = %0}
  }

  // Drops dimensions of size 1.
  // Traits: movement, reshape, view.
  irdl.operation @squeeze {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"dimensions" = %0}
  }

  // Permutes the dimensions: result dimension i is operand dimension permutation[i].
  // Traits: movement, view.
  irdl.operation @transpose {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"permutation" = %0}
  }

  // Reverses the order of the elements along dimensions.
  // Traits: movement.
  irdl.operation @rev {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"dimensions" = %0}
  }

  // Repeats the operand reps[i] times along dimension i.
  // Traits: movement.
  irdl.operation @tile {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"reps" = %0}
  }

  // A copy in a buffer of its own.
  // Traits: movement.
  irdl.operation @copy {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Joins the operands along a dimension.
  // Traits: movement, joining.
  irdl.operation @concatenate {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(r0: %2)
    irdl.attributes {"dimension" = %0}
  }

  // Joins operands of one shape along a new axis.
  // Traits: movement, joining.
  irdl.operation @stack {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(r0: %2)
    irdl.attributes {"axis" = %0}
  }

  // Splits the operand along an axis, which disappears.
  // Traits: movement, splitting.
  irdl.operation @unstack {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"axis" = %0}
  }

  // Splits the operand along an axis into pieces of the given sizes.
  // Traits: movement, splitting.
  irdl.operation @split {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"sizes" = %0, "axis" = %1}
  }

  // Pads the operand with the second operand, a scalar, by (low, high, interior) in each dimension.
  // Traits: movement.
  irdl.operation @pad {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %1, o1: %2)
    irdl.results(r0: %3)
    irdl.attributes {"padding_config" = %0}
  }

  // Converts to another dtype.
  // Traits: elementwise.
  irdl.operation @convert_element_type {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"new_dtype" = %0}
  }

  // Reads the bits as another dtype; if the widths differ, a last dimension is added or dropped.
  irdl.operation @bitcast_convert_type {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"new_dtype" = %0}
  }

  // An array of an extended dtype, from an array of its representation.
  irdl.operation @to_edtype {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"edtype" = %0}
  }

  // The representation of an array of an extended dtype.
  irdl.operation @from_edtype {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"dtype" = %0}
  }

  // Size of one dimension of the operand, a scalar integer.
  irdl.operation @dimension_size {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"dimension" = %0}
  }

  // Value of a symbolic dimension expression, a scalar integer.
  irdl.operation @dim_as_value {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"dim" = %0}
  }

  // Stops the program unless the first operand is true; the others are put into the message.
  irdl.operation @shape_assertion {
    %0 = irdl.base "#builtin.string"
    %1 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.attributes {"error_message" = %0}
  }

  // Rectangular slice, x[start:limit:stride] along every dimension.
  // Traits: movement, slicing.
  irdl.operation @slice {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"start_indices" = %0, "limit_indices" = %1}
  }

  // Slice of static sizes at run-time indices, clamped into bounds; operands (x, *indices).
  // Traits: movement, slicing.
  irdl.operation @dynamic_slice {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(r0: %2)
    irdl.attributes {"slice_sizes" = %0}
  }

  // x with a slice overwritten at run-time indices; operands (x, update, *indices).
  // Traits: movement, update.
  irdl.operation @dynamic_update_slice {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %0)
    irdl.results(r0: %1)
  }

  // Slices of the first operand at the indices in the second; the mode says what happens to indices out of bounds.
  // Traits: movement, slicing.
  irdl.operation @gather {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %3, o1: %4)
    irdl.results(r0: %5)
    irdl.attributes {"dimension_numbers" = %0, "slice_sizes" = %1, "mode" = %2}
  }

  // x with slices overwritten; operands (x, indices, updates).
  // Traits: movement, update.
  irdl.operation @scatter {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %2, o1: %3, o2: %4)
    irdl.results(r0: %5)
    irdl.attributes {"dimension_numbers" = %0, "mode" = %1}
  }

  // x with slices added, x[indices] += updates.
  // Traits: update.
  irdl.operation @scatter_add {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %3, o1: %4, o2: %5)
    irdl.results(r0: %6)
    irdl.attributes {"update_jaxpr" = %0, "dimension_numbers" = %1, "mode" = %2}
  }

  // x with slices subtracted, x[indices] -= updates.
  // Traits: update.
  irdl.operation @scatter_sub {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %3, o1: %4, o2: %5)
    irdl.results(r0: %6)
    irdl.attributes {"update_jaxpr" = %0, "dimension_numbers" = %1, "mode" = %2}
  }

  // x with slices multiplied, x[indices] *= updates.
  // Traits: update.
  irdl.operation @scatter_mul {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %3, o1: %4, o2: %5)
    irdl.results(r0: %6)
    irdl.attributes {"update_jaxpr" = %0, "dimension_numbers" = %1, "mode" = %2}
  }

  // x with slices lowered, x[indices] = min(x[indices], updates).
  // Traits: update.
  irdl.operation @scatter_min {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %3, o1: %4, o2: %5)
    irdl.results(r0: %6)
    irdl.attributes {"update_jaxpr" = %0, "dimension_numbers" = %1, "mode" = %2}
  }

  // x with slices raised, x[indices] = max(x[indices], updates).
  // Traits: update.
  irdl.operation @scatter_max {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %3, o1: %4, o2: %5)
    irdl.results(r0: %6)
    irdl.attributes {"update_jaxpr" = %0, "dimension_numbers" = %1, "mode" = %2}
  }

  // Sum over axes.
  // Traits: reduction.
  irdl.operation @reduce_sum {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Product over axes.
  // Traits: reduction.
  irdl.operation @reduce_prod {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Largest element over axes; NaN if any is NaN.
  // Traits: reduction.
  irdl.operation @reduce_max {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Smallest element over axes; NaN if any is NaN.
  // Traits: reduction.
  irdl.operation @reduce_min {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Bitwise and over axes; for booleans, `all`.
  // Traits: reduction.
  irdl.operation @reduce_and {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Bitwise or over axes; for booleans, `any`.
  // Traits: reduction.
  irdl.operation @reduce_or {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Bitwise exclusive or over axes.
  // Traits: reduction.
  irdl.operation @reduce_xor {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Reduction by any associative function; operands (*arrays, *initial values): a result for each array.
  irdl.operation @reduce {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"jaxpr" = %0, "dimensions" = %1}
  }

  // Index of the first largest element along one axis.
  irdl.operation @argmax {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"axes" = %0, "index_dtype" = %1}
  }

  // Index of the first smallest element along one axis.
  irdl.operation @argmin {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"axes" = %0, "index_dtype" = %1}
  }

  // Running sum, y[i] = x[0] + ... + x[i].
  // Traits: cumulative.
  irdl.operation @cumsum {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axis" = %0}
  }

  // Running product, y[i] = x[0] * ... * x[i].
  // Traits: cumulative.
  irdl.operation @cumprod {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axis" = %0}
  }

  // Running maximum.
  // Traits: cumulative.
  irdl.operation @cummax {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axis" = %0}
  }

  // Running minimum.
  // Traits: cumulative.
  irdl.operation @cummin {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axis" = %0}
  }

  // Running log of the sum of exponentials.
  // Traits: cumulative.
  irdl.operation @cumlogsumexp {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axis" = %0}
  }

  // Sorts along a dimension by the first num_keys operands; the others are permuted in the same way.
  irdl.operation @sort {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"dimension" = %0, "is_stable" = %1, "num_keys" = %2}
  }

  // The k largest elements along an axis, in falling order, and their indices.
  irdl.operation @top_k {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3, r1: %4)
    irdl.attributes {"k" = %0, "axis" = %1}
  }

  // The k largest (or smallest) elements along a dimension and their indices, with at least the expected recall.
  irdl.operation @approx_top_k {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5, r1: %6)
    irdl.attributes {"k" = %0, "reduction_dimension" = %1, "recall_target" = %2, "is_max_k" = %3}
  }

  // Contraction of two arrays over contracting dimensions, one product for each batch index.
  // Traits: contraction.
  irdl.operation @dot_general {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %1, o1: %2)
    irdl.results(r0: %3)
    irdl.attributes {"dimension_numbers" = %0}
  }

  // Contraction where a dimension of the left operand is cut into groups of run-time sizes, each with its own right operand.
  // Traits: contraction.
  irdl.operation @ragged_dot_general {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3)
    irdl.results(r0: %4)
    irdl.attributes {"ragged_dot_dimension_numbers" = %0}
  }

  // Contraction of block-scaled operands, (lhs * lhs_scale) . (rhs * rhs_scale).
  // Traits: contraction.
  irdl.operation @scaled_dot {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(r0: %5)
    irdl.attributes {"dimension_numbers" = %0}
  }

  // Convolution of batches of images with kernels: strides, padding, dilations, groups.
  // Traits: contraction.
  irdl.operation @conv_general_dilated {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    irdl.operands(o0: %5, o1: %6)
    irdl.results(r0: %7)
    irdl.attributes {"window_strides" = %0, "padding" = %1, "lhs_dilation" = %2, "rhs_dilation" = %3, "dimension_numbers" = %4}
  }

  // Discrete Fourier transform over the last dimensions; kinds FFT, IFFT, RFFT, IRFFT.
  irdl.operation @fft {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"fft_type" = %0, "fft_lengths" = %1}
  }

  // Reduction of every window by any associative function; operands (*arrays, *initial values).
  irdl.operation @reduce_window {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    irdl.operands(operands: variadic %6)
    irdl.results(results: variadic %7)
    irdl.attributes {"jaxpr" = %0, "window_dimensions" = %1, "window_strides" = %2, "padding" = %3, "base_dilation" = %4, "window_dilation" = %5}
  }

  // Sum of every window.
  irdl.operation @reduce_window_sum {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %5)
    irdl.results(r0: %6)
    irdl.attributes {"window_dimensions" = %0, "window_strides" = %1, "padding" = %2, "base_dilation" = %3, "window_dilation" = %4}
  }

  // Largest element of every window.
  irdl.operation @reduce_window_max {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %5)
    irdl.results(r0: %6)
    irdl.attributes {"window_dimensions" = %0, "window_strides" = %1, "padding" = %2, "base_dilation" = %3, "window_dilation" = %4}
  }

  // Smallest element of every window.
  irdl.operation @reduce_window_min {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %5)
    irdl.results(r0: %6)
    irdl.attributes {"window_dimensions" = %0, "window_strides" = %1, "padding" = %2, "base_dilation" = %3, "window_dilation" = %4}
  }

  // Combines each source element, by scatter_jaxpr, with the element that select_jaxpr selects in its window; operands (operand, source, initial value).
  irdl.operation @select_and_scatter {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.base "#builtin.symbol_ref"
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    %8 = irdl.any
    irdl.operands(o0: %5, o1: %6, o2: %7)
    irdl.results(r0: %8)
    irdl.attributes {"select_jaxpr" = %0, "scatter_jaxpr" = %1, "window_dimensions" = %2, "window_strides" = %3, "padding" = %4}
  }

  // Transpose of a windowed maximum or minimum: adds each source element at the element that its window of the second operand selects.
  irdl.operation @select_and_scatter_add {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %4, o1: %5)
    irdl.results(r0: %6)
    irdl.attributes {"select_prim" = %0, "window_dimensions" = %1, "window_strides" = %2, "padding" = %3}
  }

  // Derivative of a windowed maximum or minimum: the tangent at the element that each window of the second operand selects.
  irdl.operation @select_and_gather_add {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    %8 = irdl.any
    irdl.operands(o0: %6, o1: %7)
    irdl.results(r0: %8)
    irdl.attributes {"select_prim" = %0, "window_dimensions" = %1, "window_strides" = %2, "padding" = %3, "base_dilation" = %4, "window_dilation" = %5}
  }

  // Lower triangular L with L L^H = x.
  irdl.operation @cholesky {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Upper triangular factor of R^T R + w w^T; operands (R, w).
  irdl.operation @cholesky_update {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // LU factorisation with row pivoting: the packed factors, the pivots, the permutation.
  irdl.operation @lu {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1, r1: %2, r2: %3)
  }

  // The permutation that a sequence of row exchanges amounts to.
  irdl.operation @lu_pivots_to_permutation {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"permutation_size" = %0}
  }

  // QR factorisation: Q and R; with pivoting the permutation too.
  irdl.operation @qr {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"full_matrices" = %0}
  }

  // QR factorisation in LAPACK's form: packed reflectors with R, and their factors tau.
  irdl.operation @geqrf {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1, r1: %2)
  }

  // geqrf with column pivoting; operands (a, initial pivots).
  irdl.operation @geqp3 {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2, r1: %3, r2: %4)
  }

  // The orthogonal matrix of packed reflectors; operands (a, tau).
  irdl.operation @householder_product {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // c multiplied by the orthogonal matrix of packed reflectors; operands (a, tau, c).
  irdl.operation @ormqr {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %2, o1: %3, o2: %4)
    irdl.results(r0: %5)
    irdl.attributes {"left" = %0, "transpose" = %1}
  }

  // Singular values; with compute_uv also U and V^H.
  irdl.operation @svd {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"full_matrices" = %0, "compute_uv" = %1}
  }

  // Eigenvalues of a general matrix, and the left and right eigenvectors that are asked for.
  irdl.operation @eig {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"compute_left_eigenvectors" = %0, "compute_right_eigenvectors" = %1}
  }

  // Eigenvectors and eigenvalues of a Hermitian matrix, of which one triangle is read.
  irdl.operation @eigh {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2, r1: %3)
    irdl.attributes {"lower" = %0}
  }

  // Schur form T with x = Z T Z^H, and Z if asked for.
  irdl.operation @schur {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"compute_schur_vectors" = %0, "sort_eig_vals" = %1}
  }

  // Upper Hessenberg form in LAPACK's packed form, and the reflectors' factors tau.
  irdl.operation @hessenberg {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1, r1: %2)
  }

  // Tridiagonal form of a Hermitian matrix: packed reflectors, diagonal, off-diagonal, tau.
  irdl.operation @tridiagonal {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2, r1: %3, r2: %4, r3: %5)
    irdl.attributes {"lower" = %0}
  }

  // alpha A A^T + beta C; operands (A, C).
  irdl.operation @symmetric_product {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %2, o1: %3)
    irdl.results(r0: %4)
    irdl.attributes {"alpha" = %0, "beta" = %1}
  }

  // The x with a x = b (or x a = b), a triangular; operands (a, b).
  irdl.operation @triangular_solve {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    irdl.operands(o0: %5, o1: %6)
    irdl.results(r0: %7)
    irdl.attributes {"left_side" = %0, "lower" = %1, "transpose_a" = %2, "conjugate_a" = %3, "unit_diagonal" = %4}
  }

  // The x with a tridiagonal system times x = b; operands (lower, diagonal, upper, b).
  irdl.operation @tridiagonal_solve {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %0, o1: %1, o2: %2, o3: %3)
    irdl.results(r0: %4)
  }

  // Keys made from integer seeds.
  irdl.operation @random_seed {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"impl" = %0}
  }

  // Raw key data (unsigned integers) as keys.
  irdl.operation @random_wrap {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"impl" = %0}
  }

  // The raw data of keys.
  irdl.operation @random_unwrap {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // New independent keys from each key: the shape is appended.
  irdl.operation @random_split {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"shape" = %0}
  }

  // A new key from each key and integer.
  irdl.operation @random_fold_in {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // The same keys, counted as new ones by the key-reuse checker.
  irdl.operation @random_clone {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Uniform random bits, an unsigned integer array for each key.
  irdl.operation @random_bits {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"bit_width" = %0, "shape" = %1}
  }

  // Gamma samples of shape parameter a; operands (key, a); their logarithms in log space.
  irdl.operation @random_gamma {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Threefry-2x32 hash; operands (key0, key1, counter0, counter1).
  irdl.operation @threefry2x32 {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %0, o1: %1, o2: %2, o3: %3)
    irdl.results(r0: %4, r1: %5)
  }

  // Threefry-4x32 hash, of four key words and four counter words.
  irdl.operation @threefry4x32 {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    %8 = irdl.any
    %9 = irdl.any
    %10 = irdl.any
    %11 = irdl.any
    irdl.operands(o0: %0, o1: %1, o2: %2, o3: %3, o4: %4, o5: %5, o6: %6, o7: %7)
    irdl.results(r0: %8, r1: %9, r2: %10, r3: %11)
  }

  // Philox-2x32 hash, of a key word and two counter words.
  irdl.operation @philox2x32 {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %0, o1: %1, o2: %2)
    irdl.results(r0: %3, r1: %4)
  }

  // Philox-4x32 hash, of two key words and four counter words.
  irdl.operation @philox4x32 {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    %8 = irdl.any
    %9 = irdl.any
    irdl.operands(o0: %0, o1: %1, o2: %2, o3: %3, o4: %4, o5: %5)
    irdl.results(r0: %6, r1: %7, r2: %8, r3: %9)
  }

  // XLA's generator: the new state and random bits.
  irdl.operation @rng_bit_generator {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %3)
    irdl.results(r0: %4, r1: %5)
    irdl.attributes {"shape" = %0, "dtype" = %1, "algorithm" = %2}
  }

  // Uniform samples in [a, b) from XLA's stateful generator.
  // Traits: impure.
  irdl.operation @rng_uniform {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %1, o1: %2)
    irdl.results(r0: %3)
    irdl.attributes {"shape" = %0}
  }

  // The same keys, marked as used.
  irdl.operation @consume {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Checks which keys are marked as used.
  irdl.operation @assert_consumed_value {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"value" = %0}
  }

  // Loop with a static trip count: (*consts, *carry, *xs) -> (*carry, *ys); step i sees xs[i] and writes ys[i].
  irdl.operation @scan {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"jaxpr" = %0, "length" = %1}
  }

  // Loop while a condition holds: (*condition consts, *body consts, *carry) -> carry.
  irdl.operation @while {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.base "#builtin.symbol_ref"
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"cond_jaxpr" = %0, "body_jaxpr" = %1}
  }

  // Calls one of several functions, branches[i]; operands (i, *args).
  irdl.operation @cond {
    %0 = irdl.base "#builtin.array"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"branches" = %0}
  }

  // The index of the group of platforms that the program is compiled for, a scalar integer; a `cond` over implementations takes it.
  irdl.operation @platform_index {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"platforms" = %0}
  }

  // The x with matvec(x) = b, found by the function solve; operands (*consts, *b).
  irdl.operation @custom_linear_solve {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"const_lengths" = %0, "jaxprs" = %1}
  }

  // As while; with `record`, buffers of the kept states and their positions follow the carry: (*condition consts, *body consts, *carry) -> (*carry, *buffers, rows, positions, steps).
  irdl.operation @checkpointed_while {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.base "#builtin.symbol_ref"
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"cond_jaxpr" = %0, "body_jaxpr" = %1, "checkpoints" = %2}
  }

  // Visits the states of a loop backwards: (a[k], y[k]) = step(*consts, *x[k], *y[k+1]); operands (*condition consts, *consts, *x[0], *record, *y[last]); results (*sums of a, *y[0]).
  irdl.operation @reverse_sweep {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.base "#builtin.symbol_ref"
    %2 = irdl.base "#builtin.symbol_ref"
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"cond_jaxpr" = %0, "advance_jaxpr" = %1, "step_jaxpr" = %2}
  }

  // Calls a function that is linear in its last operands and has its own transpose; operands (*residuals, *linear operands).
  irdl.operation @linear_map {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.base "#builtin.symbol_ref"
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"call_jaxpr" = %0, "transpose_jaxpr" = %1}
  }

  // Calls a function that is compiled as a unit.
  // Traits: call.
  irdl.operation @jit {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"jaxpr" = %0}
  }

  // Calls a function.
  // Traits: call.
  irdl.operation @call {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"call_jaxpr" = %0}
  }

  // Calls a function.
  // Traits: call.
  irdl.operation @closed_call {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"call_jaxpr" = %0}
  }

  // Calls a function that is evaluated in place.
  // Traits: call.
  irdl.operation @eval_jaxpr {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"call_jaxpr" = %0}
  }

  // Calls a function whose ops run in the order in which they are written, enforced or as a hint.
  // Traits: call.
  irdl.operation @program_order {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(operands: variadic %5)
    irdl.results(results: variadic %6)
    irdl.attributes {"call_jaxpr" = %0, "enforce" = %1, "strict_in" = %2, "strict_out" = %3, "exclude_mask" = %4}
  }

  // Calls a function whose intermediate values are recomputed in the backward pass, save those that the policy keeps.
  // Traits: call.
  irdl.operation @remat2 {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"jaxpr" = %0}
  }

  // The operand, under a name that checkpoint policies can ask for.
  irdl.operation @name {
    %0 = irdl.base "#builtin.string"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"name" = %0}
  }

  // Calls a function that a compiler may replace by its own op of that name and version.
  // Traits: call.
  irdl.operation @composite {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.base "#builtin.string"
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"call_jaxpr" = %0, "name" = %1}
  }

  // Calls a function that has its own batching rule.
  // Traits: call.
  irdl.operation @custom_vmap_call {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(operands: variadic %4)
    irdl.results(results: variadic %5)
    irdl.attributes {"call" = %0, "rule" = %1, "in_tree" = %2, "out_tree" = %3}
  }

  // Calls a function that has its own inverses: the k-th computes the operands operands[k] from the results and the other operands, and log|det| of the function's derivative with respect to them.
  // Traits: call.
  irdl.operation @custom_inverse_call {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.base "#builtin.array"
    %2 = irdl.base "#builtin.array"
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(operands: variadic %4)
    irdl.results(results: variadic %5)
    irdl.attributes {"call_jaxpr" = %0, "inverses" = %1, "log_dets" = %2, "operands" = %3}
  }

  // Calls a function that has its own partitioning rule.
  // Traits: call, custom call.
  irdl.operation @custom_partitioning {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"call" = %0, "in_tree" = %1, "out_tree" = %2}
  }

  // Calls a function that `jax.export` serialised.
  // Traits: custom call.
  irdl.operation @call_exported {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"exported" = %0}
  }

  // Applies a primitive over user-defined types, which carries its own rules.
  irdl.operation @call_hi_primitive {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"_prim" = %0}
  }

  // The linear part of a primitive over user-defined types; operands (*residuals, *tangents).
  irdl.operation @call_hi_primitive_linearized {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"_prim" = %0, "residuals_tree" = %1, "nz_in_flat" = %2}
  }

  // Calls a function on another kind of processor, such as the host.
  // Traits: call.
  irdl.operation @compute_on {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.base "#builtin.string"
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"jaxpr" = %0, "compute_type" = %1, "out_memory_spaces" = %2}
  }

  // Calls a function whose ops carry metadata for XLA, such as a scheduling group.
  // Traits: call.
  irdl.operation @xla_metadata_call {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"jaxpr" = %0, "xla_metadata" = %1}
  }

  // The operand, with metadata for XLA attached.
  irdl.operation @xla_metadata_value {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"xla_metadata_kvs" = %0}
  }

  // Calls a function that has to become one kernel.
  // Traits: call.
  irdl.operation @fused_call {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"jaxpr" = %0, "out_spaces" = %1}
  }

  // Raises an error if the program is compiled with it.
  irdl.operation @unreachable {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.base "#builtin.string"
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"out_avals" = %0, "exc_type" = %1, "message" = %2}
  }

  // Calls a function whose JVP is jvp_jaxpr: (*primals, *tangents) -> (*primals, *tangents).
  // Traits: call.
  irdl.operation @custom_jvp_call_jaxpr {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"call_jaxpr" = %0}
  }

  // Calls a function whose VJP is fwd_jaxpr: (*primals) -> (*residuals, *results), then bwd_jaxpr: (*residuals, *cotangents) -> (*cotangents).
  // Traits: call.
  irdl.operation @custom_vjp_call_jaxpr {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"call_jaxpr" = %0}
  }

  // The unknown linear map from tangents to tangents whose transpose is bwd: (*residuals, *cotangents) -> (*cotangents); operands (*residuals, *nonzero tangents).
  irdl.operation @custom_lin {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %0)
    irdl.results(results: variadic %1)
  }

  // Calls a function that is linear in its last operands and has its own transpose; operands (*callee consts, *residuals, *linear operands).
  irdl.operation @linear_call {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"callee" = %0}
  }

  // The forward rule of a custom_vjp whose residuals may be recomputed: results (*residuals, *results); if no residual is used, a call of fun_jaxpr on the operands without the consts.
  irdl.operation @remat_opt {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"fwd_jaxpr" = %0}
  }

  // The operand, treated as constant by differentiation.
  // Traits: elementwise.
  irdl.operation @stop_gradient {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // A new reference that holds the operand.
  // Traits: impure.
  irdl.operation @new_ref {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // A new reference whose value is not defined.
  // Traits: impure.
  irdl.operation @empty_ref {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"ty" = %0}
  }

  // Ends a reference and returns its value.
  // Traits: impure.
  irdl.operation @freeze {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Ends a reference without reading it.
  // Traits: impure.
  irdl.operation @free_ref {
    %0 = irdl.any
    irdl.operands(o0: %0)
  }

  // Reads ref[indices]; operands (ref, *indices).
  // Traits: impure.
  irdl.operation @get {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(r0: %2)
    irdl.attributes {"tree" = %0}
  }

  // Writes ref[indices] and returns its old value; operands (ref, value, *indices).
  // Traits: impure.
  irdl.operation @swap {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(r0: %2)
    irdl.attributes {"tree" = %0}
  }

  // Adds to ref[indices]; operands (ref, value, *indices).
  // Traits: impure.
  irdl.operation @addupdate {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.attributes {"tree" = %0}
  }

  // The operand; its gradient is accumulated in a reference.
  // Traits: impure.
  irdl.operation @accum_grad_in_ref {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Calls a function on references that hold the operands; the results are their final values.
  // Traits: impure.
  irdl.operation @run_state {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"jaxpr" = %0, "which_linear" = %1, "is_initialized" = %2}
  }

  // Calls a function on references that live as long as the call; the operands are its consts.
  // Traits: impure.
  irdl.operation @run_scoped {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(results: variadic %2)
    irdl.attributes {"jaxpr" = %0}
  }

  // A new buffer: a value to be used exactly once.
  // Traits: impure.
  irdl.operation @create_linear {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"ty" = %0}
  }

  // The operand in a buffer of a memory space: a value to be used exactly once.
  // Traits: impure.
  irdl.operation @pin {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // The value of a pinned buffer.
  // Traits: impure.
  irdl.operation @unpin {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // The operand, as a value of the program even if it was a literal.
  // Traits: impure.
  irdl.operation @stage {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Calls a Python function that has no side effects.
  // Traits: impure, custom call.
  irdl.operation @pure_callback {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"callback" = %0, "result_avals" = %1}
  }

  // Calls a Python function for its side effects too, in program order if `ordered`.
  // Traits: impure, custom call.
  irdl.operation @io_callback {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"callback" = %0, "result_avals" = %1}
  }

  // Calls a Python function for its side effects only.
  // Traits: impure, custom call.
  irdl.operation @debug_callback {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.attributes {"callback" = %0, "effect" = %1}
  }

  // Prints a format string with the operands in its fields.
  // Traits: impure.
  irdl.operation @debug_print {
    %0 = irdl.base "#builtin.string"
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.attributes {"fmt" = %0, "in_tree" = %1}
  }

  // Calls a Python function on device buffers, without a copy to the host.
  // Traits: impure, custom call.
  irdl.operation @buffer_callback {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(operands: variadic %4)
    irdl.results(results: variadic %5)
    irdl.attributes {"callback" = %0, "result_avals" = %1, "in_tree" = %2, "out_tree" = %3}
  }

  // Calls a registered foreign function.
  // Traits: impure, custom call.
  irdl.operation @ffi_call {
    %0 = irdl.base "#builtin.string"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(operands: variadic %4)
    irdl.results(results: variadic %5)
    irdl.attributes {"target_name" = %0, "result_avals" = %1, "input_layouts" = %2, "output_layouts" = %3}
  }

  // A run-time check of `jax.experimental.checkify` that is not functionalized yet.
  // Traits: impure.
  irdl.operation @check {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.attributes {"err_tree" = %0}
  }

  // A new token.
  // Traits: impure.
  irdl.operation @create_token {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %0)
    irdl.results(r0: %1)
  }

  // A token that comes after all of the operands.
  // Traits: impure.
  irdl.operation @after_all {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %0)
    irdl.results(r0: %1)
  }

  // The operands; no optimization moves an op across it.
  // Traits: impure.
  irdl.operation @optimization_barrier {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %0)
    irdl.results(results: variadic %1)
  }

  // Uses the operand, so that it is not dead.
  // Traits: impure.
  irdl.operation @dce_sink {
    %0 = irdl.any
    irdl.operands(o0: %0)
  }

  // The second operand, made to depend on the first.
  // Traits: impure.
  irdl.operation @tie {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2)
  }

  // Calls a function on every device of a mesh, each with its own shard of the operands.
  // Traits: impure.
  irdl.operation @shard_map {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(operands: variadic %5)
    irdl.results(results: variadic %6)
    irdl.attributes {"jaxpr" = %0, "mesh" = %1, "in_specs" = %2, "out_specs" = %3, "newly_manual_axes" = %4}
  }

  // Moves each operand to a device, a sharding or a memory space.
  // Traits: impure.
  irdl.operation @device_put {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"devices" = %0, "srcs" = %1, "copy_semantics" = %2}
  }

  // The operand, constrained to a sharding.
  // Traits: impure.
  irdl.operation @sharding_constraint {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"sharding" = %0}
  }

  // The operand, with another sharding in its type.
  // Traits: impure.
  irdl.operation @reshard {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"dst_sharding" = %0}
  }

  // The operand, constrained to a memory layout.
  // Traits: impure.
  irdl.operation @layout_constraint {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"layout" = %0}
  }

  // The operand, with another memory layout in its type.
  // Traits: impure.
  irdl.operation @relayout {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"dst_layout" = %0}
  }

  // Both operands, constrained to one sharding.
  // Traits: impure.
  irdl.operation @shard_alike {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %0, o1: %1)
    irdl.results(r0: %2, r1: %3)
  }

  // Calls a Python function with the sharding that the compiler chose for the operand.
  // Traits: impure.
  irdl.operation @inspect_sharding {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %1)
    irdl.attributes {"callback" = %0}
  }

  // The operand, constrained to a memory space.
  // Traits: impure.
  irdl.operation @with_memory_space_constraint {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"memory_space" = %0}
  }

  // The operand, without a memory space in its type.
  // Traits: impure.
  irdl.operation @remove_memory_space {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // This host's part of an array over all hosts.
  // Traits: impure.
  irdl.operation @global_array_to_host_local_array {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"global_mesh" = %0, "pspec" = %1}
  }

  // The array over all hosts, from this host's part.
  // Traits: impure.
  irdl.operation @host_local_array_to_global_array {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"global_mesh" = %0, "pspec" = %1}
  }

  // This device's index along mesh axes, a scalar integer.
  // Traits: impure.
  irdl.operation @axis_index {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"axis_name" = %0}
  }

  // Sum over the devices of mesh axes.
  // Traits: impure.
  irdl.operation @psum {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Maximum over the devices of mesh axes.
  // Traits: impure.
  irdl.operation @pmax {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Minimum over the devices of mesh axes.
  // Traits: impure.
  irdl.operation @pmin {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // psum whose result is typed as equal on all devices of the axes.
  // Traits: impure.
  irdl.operation @psum_invariant {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Sums an operand typed as unreduced.
  // Traits: impure.
  irdl.operation @unreduced_psum {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Maximum of an operand typed as unreduced.
  // Traits: impure.
  irdl.operation @unreduced_pmax {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Minimum of an operand typed as unreduced.
  // Traits: impure.
  irdl.operation @unreduced_pmin {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // psum whose result is scattered: each device keeps its part along a dimension.
  // Traits: impure.
  irdl.operation @reduce_scatter {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5)
    irdl.attributes {"axis_name" = %0, "scatter_dimension" = %1, "axis_size" = %2, "tiled" = %3}
  }

  // reduce_scatter of an operand typed as unreduced.
  // Traits: impure.
  irdl.operation @unreduced_reduce_scatter {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5)
    irdl.attributes {"axis_name" = %0, "scatter_dimension" = %1, "axis_size" = %2, "tiled" = %3}
  }

  // Every device's operand, joined (tiled) or stacked along a dimension.
  // Traits: impure.
  irdl.operation @all_gather {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5)
    irdl.attributes {"all_gather_dimension" = %0, "axis_name" = %1, "axis_size" = %2, "tiled" = %3}
  }

  // all_gather whose result is typed as equal on all devices of the axes.
  // Traits: impure.
  irdl.operation @all_gather_invariant {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5)
    irdl.attributes {"all_gather_dimension" = %0, "axis_name" = %1, "axis_size" = %2, "tiled" = %3}
  }

  // all_gather whose result is typed as reduced.
  // Traits: impure.
  irdl.operation @all_gather_reduced {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5)
    irdl.attributes {"all_gather_dimension" = %0, "axis_name" = %1, "axis_size" = %2, "tiled" = %3}
  }

  // Splits along one dimension, sends a part to each device, joins along another.
  // Traits: impure.
  irdl.operation @all_to_all {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %3)
    irdl.results(r0: %4)
    irdl.attributes {"split_axis" = %0, "concat_axis" = %1, "axis_name" = %2}
  }

  // all_to_all with parts of run-time sizes; operands (operand, output, input_offsets, send_sizes, output_offsets, recv_sizes).
  // Traits: impure.
  irdl.operation @ragged_all_to_all {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4, o4: %5, o5: %6)
    irdl.results(r0: %7)
    irdl.attributes {"axis_name" = %0}
  }

  // Sends the operand along (source, destination) pairs; zeros where nothing arrives.
  // Traits: impure.
  irdl.operation @ppermute {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"axis_name" = %0, "perm" = %1}
  }

  // One device's operand, on every device of the axes.
  // Traits: impure.
  irdl.operation @pbroadcast {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"axis_name" = %0, "source" = %1}
  }

  // The operand of the device whose index is the second operand, on every device of the axes.
  // Traits: impure.
  irdl.operation @pbroadcast_dynamic {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %1, o1: %2)
    irdl.results(r0: %3)
    irdl.attributes {"axis_name" = %0}
  }

  // Sends the operand along (source, destination) pairs; the result is a token.
  // Traits: impure.
  irdl.operation @psend {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"axis_name" = %0, "perm" = %1}
  }

  // Receives an array along (source, destination) pairs; the operand is a token.
  // Traits: impure.
  irdl.operation @precv {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %3)
    irdl.results(r0: %4)
    irdl.attributes {"out_shape" = %0, "axis_name" = %1, "perm" = %2}
  }

  // The operand, typed as varying over mesh axes.
  // Traits: impure.
  irdl.operation @pvary {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // The operand, typed as reduced over mesh axes.
  // Traits: impure.
  irdl.operation @preduced {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // The operand, typed as varying where it was reduced.
  // Traits: impure.
  irdl.operation @reduced_vary_cast {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // The operand, typed as unreduced where it was varying.
  // Traits: impure.
  irdl.operation @vary_unreduced_cast {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Starts all_gather; the result is a future.
  // Traits: impure.
  irdl.operation @all_gather_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5)
    irdl.attributes {"all_gather_dimension" = %0, "axis_name" = %1, "axis_size" = %2, "tiled" = %3}
  }

  // Starts all_gather_reduced; the result is a future.
  // Traits: impure.
  irdl.operation @all_gather_reduced_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5)
    irdl.attributes {"all_gather_dimension" = %0, "axis_name" = %1, "axis_size" = %2, "tiled" = %3}
  }

  // Waits for the future of all_gather_start; the result is its value.
  // Traits: impure.
  irdl.operation @all_gather_done {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Starts all_to_all; the result is a future.
  // Traits: impure.
  irdl.operation @all_to_all_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %3)
    irdl.results(r0: %4)
    irdl.attributes {"split_axis" = %0, "concat_axis" = %1, "axis_name" = %2}
  }

  // Waits for the future of all_to_all_start; the result is its value.
  // Traits: impure.
  irdl.operation @all_to_all_done {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Starts pbroadcast; the result is a future.
  // Traits: impure.
  irdl.operation @pbroadcast_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"axis_name" = %0, "source" = %1}
  }

  // Waits for the future of pbroadcast_start; the result is its value.
  // Traits: impure.
  irdl.operation @pbroadcast_done {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Starts ppermute; the result is a future.
  // Traits: impure.
  irdl.operation @ppermute_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"axis_name" = %0, "perm" = %1}
  }

  // Waits for the future of ppermute_start; the result is its value.
  // Traits: impure.
  irdl.operation @ppermute_done {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Starts psum; the result is a future.
  // Traits: impure.
  irdl.operation @psum_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Starts psum_invariant; the result is a future.
  // Traits: impure.
  irdl.operation @psum_invariant_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Starts unreduced_psum; the result is a future.
  // Traits: impure.
  irdl.operation @unreduced_psum_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"axes" = %0}
  }

  // Waits for the future of psum_start; the result is its value.
  // Traits: impure.
  irdl.operation @psum_done {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Starts reduce_scatter; the result is a future.
  // Traits: impure.
  irdl.operation @reduce_scatter_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5)
    irdl.attributes {"axis_name" = %0, "scatter_dimension" = %1, "axis_size" = %2, "tiled" = %3}
  }

  // Starts unreduced_reduce_scatter; the result is a future.
  // Traits: impure.
  irdl.operation @unreduced_reduce_scatter_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5)
    irdl.attributes {"axis_name" = %0, "scatter_dimension" = %1, "axis_size" = %2, "tiled" = %3}
  }

  // Waits for the future of reduce_scatter_start; the result is its value.
  // Traits: impure.
  irdl.operation @reduce_scatter_done {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // The dense array of any sparse one, given by its buffers.
  irdl.operation @todense {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(r0: %2)
    irdl.attributes {"tree" = %0}
  }

  // The COO matrix of a dense one, with room for nse elements.
  irdl.operation @coo_fromdense {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3, r1: %4, r2: %5)
    irdl.attributes {"nse" = %0, "index_dtype" = %1}
  }

  // The dense matrix of a COO one.
  irdl.operation @coo_todense {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3)
    irdl.results(r0: %4)
    irdl.attributes {"spinfo" = %0}
  }

  // COO matrix times vector.
  irdl.operation @coo_matvec {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(r0: %5)
    irdl.attributes {"spinfo" = %0}
  }

  // COO matrix times dense matrix.
  irdl.operation @coo_matmat {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(r0: %5)
    irdl.attributes {"spinfo" = %0}
  }

  // coo_matvec as one vendor library call.
  irdl.operation @coo_spmv {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(r0: %5)
    irdl.attributes {"shape" = %0}
  }

  // coo_matmat as one vendor library call.
  irdl.operation @coo_spmm {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(r0: %5)
    irdl.attributes {"shape" = %0}
  }

  // The CSR matrix of a dense one, with room for nse elements.
  irdl.operation @csr_fromdense {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3, r1: %4, r2: %5)
    irdl.attributes {"nse" = %0, "index_dtype" = %1}
  }

  // The dense matrix of a CSR one.
  irdl.operation @csr_todense {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3)
    irdl.results(r0: %4)
    irdl.attributes {"shape" = %0}
  }

  // CSR matrix times vector.
  irdl.operation @csr_matvec {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(r0: %5)
    irdl.attributes {"shape" = %0}
  }

  // CSR matrix times dense matrix.
  irdl.operation @csr_matmat {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(r0: %5)
    irdl.attributes {"shape" = %0}
  }

  // csr_matvec as one vendor library call.
  irdl.operation @csr_spmv {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(r0: %5)
    irdl.attributes {"shape" = %0}
  }

  // csr_matmat as one vendor library call.
  irdl.operation @csr_spmm {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(r0: %5)
    irdl.attributes {"shape" = %0}
  }

  // The x with A x = b, for a CSR matrix A.
  irdl.operation @spsolve {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %2, o1: %3, o2: %4, o3: %5)
    irdl.results(r0: %6)
    irdl.attributes {"tol" = %0, "reorder" = %1}
  }

  // The BCOO array of a dense one.
  irdl.operation @bcoo_fromdense {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5, r1: %6)
    irdl.attributes {"nse" = %0, "n_batch" = %1, "n_dense" = %2, "index_dtype" = %3}
  }

  // The dense array of a BCOO one.
  irdl.operation @bcoo_todense {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %1, o1: %2)
    irdl.results(r0: %3)
    irdl.attributes {"spinfo" = %0}
  }

  // The elements of a dense array at BCOO indices; operands (indices, array).
  irdl.operation @bcoo_extract {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %1, o1: %2)
    irdl.results(r0: %3)
    irdl.attributes {"assume_unique" = %0}
  }

  // Permutes the dimensions of a BCOO array.
  irdl.operation @bcoo_transpose {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %2, o1: %3)
    irdl.results(r0: %4, r1: %5)
    irdl.attributes {"permutation" = %0, "spinfo" = %1}
  }

  // The same BCOO array with sorted indices.
  irdl.operation @bcoo_sort_indices {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %1, o1: %2)
    irdl.results(r0: %3, r1: %4)
    irdl.attributes {"spinfo" = %0}
  }

  // The same BCOO array, with elements at equal indices summed.
  irdl.operation @bcoo_sum_duplicates {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %1, o1: %2)
    irdl.results(r0: %3, r1: %4)
    irdl.attributes {"spinfo" = %0}
  }

  // Contraction of a BCOO array with a dense one.
  irdl.operation @bcoo_dot_general {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %2, o1: %3, o2: %4)
    irdl.results(r0: %5)
    irdl.attributes {"dimension_numbers" = %0, "lhs_spinfo" = %1}
  }

  // Contraction of two BCOO arrays, to a BCOO array.
  irdl.operation @bcoo_spdot_general {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    %8 = irdl.any
    irdl.operands(o0: %3, o1: %4, o2: %5, o3: %6)
    irdl.results(r0: %7, r1: %8)
    irdl.attributes {"lhs_spinfo" = %0, "rhs_spinfo" = %1, "dimension_numbers" = %2}
  }

  // The elements at BCOO indices of a contraction of dense arrays.
  irdl.operation @bcoo_dot_general_sampled {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3)
    irdl.results(r0: %4)
    irdl.attributes {"dimension_numbers" = %0}
  }

  // The BCSR array of a dense one.
  irdl.operation @bcsr_fromdense {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    irdl.operands(o0: %4)
    irdl.results(r0: %5, r1: %6, r2: %7)
    irdl.attributes {"nse" = %0, "n_batch" = %1, "n_dense" = %2, "index_dtype" = %3}
  }

  // The dense array of a BCSR one.
  irdl.operation @bcsr_todense {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3)
    irdl.results(r0: %4)
    irdl.attributes {"spinfo" = %0}
  }

  // The elements of a dense array at BCSR indices; operands (indices, indptr, array).
  irdl.operation @bcsr_extract {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %0, o1: %1, o2: %2)
    irdl.results(r0: %3)
  }

  // Contraction of a BCSR array with a dense one.
  irdl.operation @bcsr_dot_general {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    irdl.operands(o0: %2, o1: %3, o2: %4, o3: %5)
    irdl.results(r0: %6)
    irdl.attributes {"dimension_numbers" = %0, "lhs_spinfo" = %1}
  }

  // Attention by cuDNN.
  // Traits: impure.
  irdl.operation @dot_product_attention_fwd {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    %8 = irdl.any
    irdl.operands(operands: variadic %7)
    irdl.results(results: variadic %8)
    irdl.attributes {"scale" = %0, "seed" = %1, "dropout_rate" = %2, "variadic_args" = %3, "mask_type" = %4, "layout" = %5, "is_training" = %6}
  }

  // Attention, batched and partitioned.
  // Traits: impure.
  irdl.operation @dot_product_attention_fwd_wrapper {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    %8 = irdl.any
    irdl.operands(operands: variadic %7)
    irdl.results(results: variadic %8)
    irdl.attributes {"scale" = %0, "seed" = %1, "dropout_rate" = %2, "variadic_args" = %3, "mask_type" = %4, "layout" = %5, "is_training" = %6}
  }

  // Gradient of attention by cuDNN.
  // Traits: impure.
  irdl.operation @dot_product_attention_bwd {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    irdl.operands(operands: variadic %6)
    irdl.results(results: variadic %7)
    irdl.attributes {"scale" = %0, "seed" = %1, "dropout_rate" = %2, "variadic_args" = %3, "mask_type" = %4, "layout" = %5}
  }

  // Gradient of attention, batched and partitioned.
  // Traits: impure.
  irdl.operation @dot_product_attention_bwd_wrapper {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    irdl.operands(operands: variadic %6)
    irdl.results(results: variadic %7)
    irdl.attributes {"scale" = %0, "seed" = %1, "dropout_rate" = %2, "variadic_args" = %3, "mask_type" = %4, "layout" = %5}
  }

  // Attention in fp8 by cuDNN.
  // Traits: impure.
  irdl.operation @dot_product_attention_fp8_fwd {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(operands: variadic %4)
    irdl.results(results: variadic %5)
    irdl.attributes {"scale" = %0, "use_causal_mask" = %1, "layout" = %2, "is_training" = %3}
  }

  // Attention in fp8, batched and partitioned.
  // Traits: impure.
  irdl.operation @dot_product_attention_fp8_fwd_wrapper {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(operands: variadic %4)
    irdl.results(results: variadic %5)
    irdl.attributes {"scale" = %0, "use_causal_mask" = %1, "layout" = %2, "is_training" = %3}
  }

  // Gradient of attention in fp8 by cuDNN.
  // Traits: impure.
  irdl.operation @dot_product_attention_fp8_bwd {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"scale" = %0, "use_causal_mask" = %1, "layout" = %2}
  }

  // Gradient of attention in fp8, batched and partitioned.
  // Traits: impure.
  irdl.operation @dot_product_attention_fp8_bwd_wrapper {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"scale" = %0, "use_causal_mask" = %1, "layout" = %2}
  }

  // Calls a function that cuDNN fuses into one kernel.
  // Traits: impure.
  irdl.operation @cudnn_fusion {
    %0 = irdl.base "#builtin.string"
    %1 = irdl.base "#builtin.symbol_ref"
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"name" = %0, "jaxpr" = %1}
  }

  // A cuDNN LSTM; operands (x, h0, c0, weights, lengths).
  // Traits: impure.
  irdl.operation @rnn_fwd {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    %8 = irdl.any
    %9 = irdl.any
    %10 = irdl.any
    %11 = irdl.any
    irdl.operands(o0: %6, o1: %7, o2: %8, o3: %9, o4: %10)
    irdl.results(results: variadic %11)
    irdl.attributes {"input_size" = %0, "hidden_size" = %1, "num_layers" = %2, "dropout" = %3, "bidirectional" = %4, "cudnn_allow_tf32" = %5}
  }

  // Gradient of a cuDNN LSTM.
  // Traits: impure.
  irdl.operation @rnn_bwd {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    %6 = irdl.any
    %7 = irdl.any
    %8 = irdl.any
    %9 = irdl.any
    %10 = irdl.any
    %11 = irdl.any
    %12 = irdl.any
    %13 = irdl.any
    %14 = irdl.any
    %15 = irdl.any
    %16 = irdl.any
    irdl.operands(o0: %6, o1: %7, o2: %8, o3: %9, o4: %10, o5: %11, o6: %12, o7: %13, o8: %14, o9: %15)
    irdl.results(results: variadic %16)
    irdl.attributes {"input_size" = %0, "hidden_size" = %1, "num_layers" = %2, "dropout" = %3, "bidirectional" = %4, "cudnn_allow_tf32" = %5}
  }

  // Product of block-scaled matrices by cuDNN; operands (a, b, a_scale, b_scale).
  // Traits: impure.
  irdl.operation @scaled_matmul {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(results: variadic %5)
    irdl.attributes {"preferred_element_type" = %0}
  }

  // scaled_matmul, batched and partitioned.
  // Traits: impure.
  irdl.operation @scaled_matmul_wrapper {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(o0: %1, o1: %2, o2: %3, o3: %4)
    irdl.results(results: variadic %5)
    irdl.attributes {"preferred_element_type" = %0}
  }

  // Runs a kernel, a function on references to blocks, over a grid.
  // Traits: impure, custom call.
  irdl.operation @pallas_call {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"jaxpr" = %0, "grid_mapping" = %1, "out_avals" = %2}
  }

  // Runs a kernel on each of several meshes of cores at once.
  // Traits: impure, custom call.
  irdl.operation @mpmd_map {
    %0 = irdl.base "#builtin.array"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"jaxprs" = %0, "meshes" = %1, "out_avals" = %2}
  }

  // Runs a function on every core of a mesh.
  // Traits: impure, custom call.
  irdl.operation @core_map {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"jaxpr" = %0, "mesh" = %1}
  }

  // A compiled TPU kernel.
  // Traits: impure, custom call.
  irdl.operation @tpu_custom_call {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"config" = %0, "out_avals" = %1}
  }

  // A compiled Mosaic GPU kernel.
  // Traits: impure, custom call.
  irdl.operation @mosaic_gpu_p {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %3)
    irdl.results(results: variadic %4)
    irdl.attributes {"module" = %0, "out_types" = %1, "inout_types" = %2}
  }

  // Calls a function that has its own rules for fusion by Pallas.
  // Traits: impure, custom call.
  irdl.operation @custom_fusion {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.results(results: variadic %3)
    irdl.attributes {"jaxpr" = %0, "eval_rule" = %1}
  }

  // Calls a function that Pallas may fuse with its producers and consumers.
  // Traits: impure.
  irdl.operation @fusible {
    %0 = irdl.base "#builtin.symbol_ref"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    %5 = irdl.any
    irdl.operands(operands: variadic %4)
    irdl.results(results: variadic %5)
    irdl.attributes {"jaxpr" = %0, "in_tree" = %1, "out_tree" = %2, "func" = %3}
  }

  // Bytes embedded in the executable, as an array of unsigned 8-bit integers.
  // Traits: impure, custom call.
  irdl.operation @thunky_inline_constant {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"value" = %0}
  }

  // This program's index along a grid axis.
  // Traits: impure.
  irdl.operation @program_id {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"axis" = %0}
  }

  // The number of programs along a grid axis.
  // Traits: impure.
  irdl.operation @num_programs {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"axis" = %0}
  }

  // Reads ref[indices] where the mask holds; operands are the leaves of args_tree.
  // Traits: impure.
  irdl.operation @masked_load {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(r0: %2)
    irdl.attributes {"args_tree" = %0}
  }

  // Writes ref[indices] where the mask holds and returns the old values.
  // Traits: impure.
  irdl.operation @masked_swap {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(r0: %2)
    irdl.attributes {"args_tree" = %0}
  }

  // The operand, known to be a multiple of each value.
  // Traits: impure.
  irdl.operation @multiple_of {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"values" = %0}
  }

  // The operand, known to rise by ones in runs of these lengths.
  // Traits: impure.
  irdl.operation @max_contiguous {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"values" = %0}
  }

  // 1 / x, fast if approximate.
  // Traits: impure.
  irdl.operation @reciprocal {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Broadcasts as numpy does.
  // Traits: impure.
  irdl.operation @broadcast_to {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(o0: %1)
    irdl.results(r0: %2)
    irdl.attributes {"shape" = %0}
  }

  // The same bits as another type.
  // Traits: impure.
  irdl.operation @bitcast {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(o0: %0)
    irdl.results(r0: %1)
  }

  // Rolls along an axis by the second operand, by `stride` more for each index of stride_axis.
  // Traits: impure.
  irdl.operation @roll {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %1, o1: %2)
    irdl.results(r0: %3)
    irdl.attributes {"axis" = %0}
  }

  // Splits, merges and permutes dimensions as an equation says.
  // Traits: impure.
  irdl.operation @einshape_lo {
    %0 = irdl.base "#builtin.string"
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    irdl.operands(o0: %2)
    irdl.results(r0: %3)
    irdl.attributes {"equation" = %0, "sizes" = %1}
  }

  // Starts a copy between references.
  // Traits: impure.
  irdl.operation @dma_start {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    %3 = irdl.any
    %4 = irdl.any
    irdl.operands(operands: variadic %4)
    irdl.attributes {"tree" = %0, "device_id_type" = %1, "priority" = %2, "add" = %3}
  }

  // Waits for a copy.
  // Traits: impure.
  irdl.operation @dma_wait {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.attributes {"tree" = %0, "device_id_type" = %1}
  }

  // A semaphore's count.
  // Traits: impure.
  irdl.operation @semaphore_read {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.results(r0: %2)
    irdl.attributes {"args_tree" = %0}
  }

  // Raises a semaphore's count, on any device.
  // Traits: impure.
  irdl.operation @semaphore_signal {
    %0 = irdl.any
    %1 = irdl.any
    %2 = irdl.any
    irdl.operands(operands: variadic %2)
    irdl.attributes {"args_tree" = %0, "device_id_type" = %1}
  }

  // Waits for a semaphore's count.
  // Traits: impure.
  irdl.operation @semaphore_wait {
    %0 = irdl.any
    %1 = irdl.any
    irdl.operands(operands: variadic %1)
    irdl.attributes {"args_tree" = %0}
  }

  // The semaphore that all devices share.
  // Traits: impure.
  irdl.operation @get_barrier_semaphore {
    %0 = irdl.any
    irdl.results(r0: %0)
  }

  // A reference to memory that all programs share.
  // Traits: impure.
  irdl.operation @get_global {
    %0 = irdl.any
    %1 = irdl.any
    irdl.results(r0: %1)
    irdl.attributes {"what" = %0}
  }

  // Waits for the operand's number of nanoseconds.
  // Traits: impure.
  irdl.operation @delay {
    %0 = irdl.any
    irdl.operands(o0: %0)
  }
}
