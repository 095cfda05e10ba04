"""Numerical functions of JAX: special functions, linear algebra, random numbers, dtypes."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import jax.scipy.special as jsp
import numpy as np
from jax import lax

from programs._table import Program, program


@program
def special_functions() -> Program:
    def special_functions(x):
        """`x` in (0, 1)."""
        return {
            "beta": jsp.beta(x, x + 1),
            "betaln": jsp.betaln(x, x + 1),
            "boxcox": jsp.boxcox(x, 0.5),
            "boxcox1p": jsp.boxcox1p(x, 0.5),
            "comb": jsp.comb(5.0, x),
            "dawsn": jsp.dawsn(x),
            "digamma": jsp.digamma(x),
            "entr": jsp.entr(x),
            "erf": jsp.erf(x),
            "erfc": jsp.erfc(x),
            "erfcx": jsp.erfcx(x),
            "erfinv": jsp.erfinv(x),
            "exp1": jsp.exp1(x),
            "expi": jsp.expi(x),
            "expit": jsp.expit(x),
            "factorial": jsp.factorial(x),
            "fresnel": jsp.fresnel(x),
            "gamma": jsp.gamma(x),
            "gammaln": jsp.gammaln(x),
            "gammasgn": jsp.gammasgn(-x),
            "i0": jsp.i0(x),
            "i0e": jsp.i0e(x),
            "i1": jsp.i1(x),
            "i1e": jsp.i1e(x),
            "kl_div": jsp.kl_div(x, x + 1),
            "log_ndtr": jsp.log_ndtr(x - 10),
            "log_softmax": jsp.log_softmax(x),
            "logit": jsp.logit(x),
            "logsumexp": jsp.logsumexp(x),
            "multigammaln": jsp.multigammaln(x + 3, 2),
            "ndtr": jsp.ndtr(x),
            "ndtri": jsp.ndtri(x),
            "poch": jsp.poch(x, 1.5),
            "rel_entr": jsp.rel_entr(x, x + 1),
            "sici": jsp.sici(x),
            "spence": jsp.spence(x),
            "softmax": jsp.softmax(x),
            "xlog1py": jsp.xlog1py(x, x),
            "xlogy": jsp.xlogy(x, x),
        }

    return special_functions, (np.linspace(0.1, 0.9, 5, dtype=np.float32),)


@program
def special_functions_by_iteration() -> Program:
    """Special functions by series and continued fractions, which take XLA longest to compile."""

    def special_functions_by_iteration(x):
        """`x` in (0, 1)."""
        return {
            "bessel_jn": jsp.bessel_jn(x, v=2, n_iter=20),
            "betainc": jsp.betainc(x + 1, x + 2, x),
            "expn": jsp.expn(2, x),
            "gammainc": jsp.gammainc(x, x + 1),
            "gammaincc": jsp.gammaincc(x, x + 1),
            "hyp1f1": jsp.hyp1f1(x, x + 1, x),
            "hyp2f1": jsp.hyp2f1(x, x + 1, x + 2, x / 2),
            "loggamma": jsp.loggamma(x),
            "owens_t": jsp.owens_t(x, x),
            "polygamma": jsp.polygamma(1, x),
            "sph_harm_y": jsp.sph_harm_y(jnp.array([2]), jnp.array([1]), x, x, n_max=2),
            "wofz": jsp.wofz(x + 0.5j),
            "zeta": jsp.zeta(x + 2, x + 1),
        }

    return special_functions_by_iteration, (np.linspace(0.1, 0.9, 5, dtype=np.float32),)


@program
def special_function_gradients() -> Program:
    """Derivatives of special functions with custom rules, or with rules of other primitives."""

    def total(x):
        functions = (jsp.logit, jsp.expit, jsp.erfinv, jsp.gammaln, jsp.i0e, jsp.ndtri, jsp.xlogy)
        return sum(jnp.sum(f(x, x) if f is jsp.xlogy else f(x)) for f in functions)

    return jax.grad(total), (np.linspace(0.1, 0.9, 5, dtype=np.float32),)


@program
def linear_algebra() -> Program:
    def linear_algebra(a, b):
        """`a` square, `b` a vector."""
        symmetric = a @ a.T + 4 * jnp.eye(len(a))
        return {
            "cholesky": jnp.linalg.cholesky(symmetric),
            "cho_solve": jsl.cho_solve(jsl.cho_factor(symmetric), b),
            "det": jnp.linalg.det(a),
            "eigh": jnp.linalg.eigh(symmetric),
            "expm": jsl.expm(0.1 * a),
            "inv": jnp.linalg.inv(a),
            "lstsq": jnp.linalg.lstsq(a, b)[0],
            "lu": jsl.lu(a),
            "lu_solve": jsl.lu_solve(jsl.lu_factor(a), b),
            "matrix_power": jnp.linalg.matrix_power(a, 3),
            "norm": jnp.linalg.norm(a),
            "pinv": jnp.linalg.pinv(a),
            "qr": jnp.linalg.qr(a),
            "slogdet": jnp.linalg.slogdet(symmetric),
            "solve": jnp.linalg.solve(a, b),
            "solve_triangular": jsl.solve_triangular(symmetric, b, lower=True),
            "svd": jnp.linalg.svd(a),
            "svdvals": jnp.linalg.svdvals(a[:, :2]),
        }

    rng = np.random.RandomState(0)
    a = rng.standard_normal((4, 4)) + 3 * np.eye(4)
    return linear_algebra, (a.astype(np.float32), rng.standard_normal(4).astype(np.float32))


@program
def general_eigenvalues() -> Program:
    """Decompositions that only the CPU backend has."""

    def general_eigenvalues(a):
        return jnp.linalg.eig(a), jsl.schur(a), jsl.hessenberg(a), jsl.sqrtm(a @ a.T)

    a = np.random.RandomState(0).standard_normal((3, 3)) + 2 * np.diag([1.0, 2.0, 3.0])
    return general_eigenvalues, (a.astype(np.float32),)


@program
def linear_algebra_gradients() -> Program:
    def total(a, b):
        symmetric = a @ a.T + 4 * jnp.eye(len(a))
        values, vectors = jnp.linalg.eigh(symmetric)
        q, r = jnp.linalg.qr(a)
        return (
            jnp.linalg.solve(a, b).sum()
            + jnp.log(jnp.diag(jnp.linalg.cholesky(symmetric))).sum()
            + jnp.linalg.slogdet(symmetric)[1]
            + (values * vectors[0]).sum()
            + jnp.linalg.svdvals(a).sum()
            + (q + r).sum()
            + jsl.expm(0.1 * a).sum()
        )

    rng = np.random.RandomState(0)
    a = rng.standard_normal((4, 4)) + 3 * np.eye(4)
    arguments = a.astype(np.float32), rng.standard_normal(4).astype(np.float32)
    return jax.grad(total, argnums=(0, 1)), arguments


@program
def random_continuous() -> Program:
    def random_continuous(key):
        shape = (3,)
        samplers = {
            "ball": lambda key: jax.random.ball(key, 2, shape=shape),
            "cauchy": lambda key: jax.random.cauchy(key, shape),
            "double_sided_maxwell": lambda key: jax.random.double_sided_maxwell(
                key, 0.5, 2.0, shape
            ),
            "exponential": lambda key: jax.random.exponential(key, shape),
            "gumbel": lambda key: jax.random.gumbel(key, shape),
            "laplace": lambda key: jax.random.laplace(key, shape),
            "logistic": lambda key: jax.random.logistic(key, shape),
            "lognormal": lambda key: jax.random.lognormal(key, 0.5, shape),
            "maxwell": lambda key: jax.random.maxwell(key, shape),
            "multivariate_normal": lambda key: jax.random.multivariate_normal(
                key, jnp.zeros(2), jnp.array([[2.0, 0.5], [0.5, 1.0]]), shape
            ),
            "normal": lambda key: jax.random.normal(key, shape),
            "normal_complex": lambda key: jax.random.normal(key, shape, jnp.complex64),
            "normal_bfloat16": lambda key: jax.random.normal(key, shape, jnp.bfloat16),
            "orthogonal": lambda key: jax.random.orthogonal(key, 3),
            "pareto": lambda key: jax.random.pareto(key, 2.0, shape),
            "rayleigh": lambda key: jax.random.rayleigh(key, 2.0, shape),
            "triangular": lambda key: jax.random.triangular(key, 0.0, 0.5, 1.0, shape),
            "truncated_normal": lambda key: jax.random.truncated_normal(key, -1.0, 2.0, shape),
            "uniform": lambda key: jax.random.uniform(key, shape, minval=-1.0),
            "wald": lambda key: jax.random.wald(key, 1.0, shape),
            "weibull_min": lambda key: jax.random.weibull_min(key, 1.0, 2.0, shape),
        }
        keys = jax.random.split(key, len(samplers))
        return {name: sample(keys[i]) for i, (name, sample) in enumerate(samplers.items())}

    return random_continuous, (jax.random.key(0),)


@program
def random_by_rejection() -> Program:
    """Distributions that use the rejection sampler of the gamma distribution."""

    def random_by_rejection(key):
        shape = (3,)
        samplers = {
            "beta": lambda key: jax.random.beta(key, 1.5, 2.5, shape),
            "chisquare": lambda key: jax.random.chisquare(key, 3.0, shape),
            "dirichlet": lambda key: jax.random.dirichlet(key, jnp.array([1.0, 2.0, 3.0]), shape),
            "f": lambda key: jax.random.f(key, 3.0, 4.0, shape),
            "gamma": lambda key: jax.random.gamma(key, 1.5, shape),
            "generalized_normal": lambda key: jax.random.generalized_normal(key, 1.5, shape),
            "loggamma": lambda key: jax.random.loggamma(key, 0.5, shape),
            "t": lambda key: jax.random.t(key, 3.0, shape),
        }
        keys = jax.random.split(key, len(samplers))
        return {name: sample(keys[i]) for i, (name, sample) in enumerate(samplers.items())}

    return random_by_rejection, (jax.random.key(0),)


@program
def random_discrete() -> Program:
    def random_discrete(key):
        shape = (3,)
        logits = jnp.log(jnp.array([0.2, 0.3, 0.5]))
        samplers = {
            "bernoulli": lambda key: jax.random.bernoulli(key, 0.3, shape),
            "binomial": lambda key: jax.random.binomial(key, 10.0, 0.3, shape),
            "bits": lambda key: jax.random.bits(key, shape, jnp.uint16),
            "categorical": lambda key: jax.random.categorical(key, logits, shape=shape),
            "choice": lambda key: jax.random.choice(key, 10, shape, replace=False),
            "choice_weighted": lambda key: jax.random.choice(key, 3, shape, p=jnp.exp(logits)),
            "geometric": lambda key: jax.random.geometric(key, 0.3, shape),
            "multinomial": lambda key: jax.random.multinomial(key, 5.0, jnp.exp(logits)),
            "permutation": lambda key: jax.random.permutation(key, 6),
            "permutation_rows": lambda key: jax.random.permutation(
                key, jnp.arange(6).reshape(3, 2), independent=True
            ),
            "poisson": lambda key: jax.random.poisson(key, jnp.array([0.5, 5.0, 50.0])),
            "rademacher": lambda key: jax.random.rademacher(key, shape),
            "randint": lambda key: jax.random.randint(key, shape, -5, 5),
            "randint_int8": lambda key: jax.random.randint(key, shape, -5, 5, jnp.int8),
        }
        keys = jax.random.split(key, len(samplers))
        return {name: sample(keys[i]) for i, (name, sample) in enumerate(samplers.items())}

    return random_discrete, (jax.random.key(0),)


@program
def random_gamma_gradient() -> Program:
    """Reparametrised gradient through the rejection sampler, by its implicit derivative."""

    def total(concentration, key):
        return jax.random.gamma(key, concentration).sum()

    return jax.grad(total), (np.array([0.5, 1.5, 3.0], np.float32), jax.random.key(0))


@program
def random_implementations() -> Program:
    """Every implementation of keys, and the operations on keys themselves."""

    def random_implementations(seed):
        samples = {}
        for name in ("threefry2x32", "rbg", "unsafe_rbg"):
            key = jax.random.fold_in(jax.random.key(seed, impl=name), 7)
            first, second = jax.random.split(key)
            samples[name] = jax.random.normal(first, (2,)), jax.random.key_data(second)
        legacy = jax.random.PRNGKey(3)
        wrapped = jax.random.wrap_key_data(legacy)
        return samples, jax.random.uniform(legacy), jax.random.uniform(jax.random.clone(wrapped))

    return random_implementations, (np.int32(5),)


@program
def neural_network_functions() -> Program:
    """All of jax.nn's activations, each with its sum's gradient."""

    def neural_network_functions(x):
        activations = (
            jax.nn.celu,
            jax.nn.elu,
            jax.nn.gelu,
            jax.nn.glu,
            jax.nn.hard_sigmoid,
            jax.nn.hard_silu,
            jax.nn.hard_tanh,
            jax.nn.leaky_relu,
            jax.nn.log_sigmoid,
            jax.nn.log_softmax,
            jax.nn.logsumexp,
            jax.nn.mish,
            jax.nn.relu,
            jax.nn.relu6,
            jax.nn.selu,
            jax.nn.sigmoid,
            jax.nn.silu,
            jax.nn.soft_sign,
            jax.nn.softmax,
            jax.nn.softplus,
            jax.nn.sparse_plus,
            jax.nn.sparse_sigmoid,
            jax.nn.squareplus,
            jax.nn.standardize,
            jax.nn.tanh,
        )
        return {
            activation.__name__: (activation(x), jax.grad(lambda x, f=activation: f(x).sum())(x))
            for activation in activations
        }

    return neural_network_functions, (np.linspace(-4, 4, 8, dtype=np.float32),)


@program
def neural_network_rules() -> Program:
    """Activations with custom rules, not differentiated, so that the rules are in the jaxpr."""

    def neural_network_rules(x, where):
        return (
            jax.nn.relu(x),
            jax.nn.gelu(x, approximate=False),
            jax.nn.silu(x),
            jax.nn.softmax(x, where=where),
            jax.nn.logsumexp(x, axis=-1, where=where),
            jax.nn.dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None]),
            jax.nn.one_hot(jnp.argmax(x, axis=-1), 4),
        )

    x = np.linspace(-4, 4, 8, dtype=np.float32).reshape(2, 4)
    return neural_network_rules, (x, x > -3)


@program
def fourier_transforms() -> Program:
    def fourier_transforms(x):
        """`x` real, two-dimensional."""
        spectrum = jnp.fft.rfft(x)
        return {
            "fft": jnp.fft.fft(x),
            "ifft": jnp.fft.ifft(x + 1j),
            "rfft": spectrum,
            "irfft": jnp.fft.irfft(spectrum, n=x.shape[-1]),
            "fft2": jnp.fft.fft2(x),
            "rfftn": jnp.fft.rfftn(x),
            "fftshift": jnp.fft.fftshift(jnp.fft.fftfreq(8)),
            "convolution": jax.scipy.signal.fftconvolve(x, x, mode="same"),
            "gradient": jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum())(x),
        }

    return fourier_transforms, (
        np.random.RandomState(0).standard_normal((4, 6)).astype(np.float32),
    )


@program
def complex_numbers() -> Program:
    def complex_numbers(z, w):
        matrix = jnp.outer(z, w) + 3 * jnp.eye(3)
        return {
            "arithmetic": (z + w, z - w, z * w, z / w, z**2, z**w, -z),
            "functions": (jnp.exp(z), jnp.log(z), jnp.sqrt(z), jnp.sin(z), jnp.tanh(z)),
            "parts": (z.real, z.imag, jnp.abs(z), jnp.angle(z), jnp.conj(z)),
            "matrix": (
                matrix @ z,
                jnp.linalg.inv(matrix),
                jnp.linalg.eigh(matrix @ matrix.conj().T),
            ),
            "vdot": jnp.vdot(z, w),
            "polynomial": lax.complex(z.real, w.real),
            "holomorphic": jax.grad(lambda z: jnp.sum(jnp.sin(z) * w), holomorphic=True)(z),
            "real_loss": jax.grad(lambda z: jnp.sum(jnp.abs(z) ** 2))(z),
        }

    z = np.array([1 + 2j, -0.5 + 1j, 2 - 1j], np.complex64)
    return complex_numbers, (z, z[::-1] + 1)


@program
def small_floats() -> Program:
    """bfloat16, float16 and the eight-bit floats: arithmetic, products and conversions."""

    def small_floats(bfloat16, float16, e4m3, e5m2):
        return {
            "bfloat16": (bfloat16 * 2 + 1, jnp.exp(bfloat16), bfloat16 @ bfloat16, bfloat16.sum()),
            "float16": (float16 / 3, jnp.tanh(float16), float16 @ float16, float16.max()),
            "float8": (e4m3 + e4m3, e5m2 * e5m2, -e4m3, e4m3 < e4m3.T),
            "dot": jnp.matmul(e4m3, e4m3, preferred_element_type=jnp.float32),
            "conversions": (e4m3.astype(jnp.float32), float16.astype(jnp.float8_e5m2)),
            "others": [
                bfloat16.astype(dtype)
                for dtype in (
                    jnp.float8_e4m3,
                    jnp.float8_e3m4,
                    jnp.float8_e4m3b11fnuz,
                    jnp.float8_e4m3fnuz,
                    jnp.float8_e5m2fnuz,
                    jnp.float8_e8m0fnu,
                )
            ],
            "gradient": jax.grad(lambda x: (x * x).sum())(bfloat16),
            "bits": lax.bitcast_convert_type(e4m3, jnp.uint8),
        }

    x = np.linspace(0.25, 3, 9, dtype=np.float32).reshape(3, 3)
    dtypes = (jnp.bfloat16, jnp.float16, jnp.float8_e4m3fn, jnp.float8_e5m2)
    return small_floats, tuple(jnp.asarray(x, dtype) for dtype in dtypes)


@program
def small_integers() -> Program:
    """Four-bit weights with a scale for each group, dequantised before a product."""

    def small_integers(weights, scales, x, unsigned):
        dequantised = weights.astype(jnp.bfloat16) * scales[:, None]
        return {
            "product": x @ dequantised,
            "int4": (weights + weights, weights * jnp.int4(2), weights > 0, weights.T),
            "uint4": (unsigned & jnp.uint4(3), unsigned.astype(jnp.int32).sum()),
        }

    integers = np.arange(-8, 8).reshape(4, 4)
    return small_integers, (
        jnp.asarray(integers, jnp.int4),
        jnp.asarray([0.5, 1.0, 2.0, 4.0], jnp.bfloat16),
        jnp.ones((2, 4), jnp.bfloat16),
        jnp.asarray(integers + 8, jnp.uint4),
    )


@program
def integers_and_bits() -> Program:
    def integers_and_bits(i, u, b):
        return {
            "bitwise": (i & 5, i | 5, i ^ 5, ~i, u << 3, u >> 2, i >> 1),
            "counts": (lax.population_count(u), lax.clz(u)),
            "division": (i // 3, i % 3, lax.rem(i, 3), lax.div(i, 3)),
            "wraparound": (u * u, i.astype(jnp.int8), -u),
            "booleans": (b & (i > 0), ~b, b.any(), b.all(), jnp.where(b, i, -i)),
            "powers": (i**3, lax.integer_pow(i, 2)),
            "bitcast": lax.bitcast_convert_type(u, jnp.float32),
        }

    i = np.array([-7, -1, 0, 3, 1000], np.int32)
    return integers_and_bits, (i, i.astype(np.uint32) * 12345, i % 2 == 0)


@program
def sorting_and_segments() -> Program:
    def sorting_and_segments(x, segments):
        return {
            "sort": (jnp.sort(x), jnp.sort(x, descending=True), jnp.argsort(x)),
            "lexsort": lax.sort((segments, x), num_keys=2),
            "top_k": lax.top_k(x, 3),
            "approximate": lax.approx_max_k(x, 2),
            "unique": jnp.unique(segments, size=4, fill_value=-1),
            "quantile": (jnp.median(x), jnp.quantile(x, 0.3)),
            "search": jnp.searchsorted(jnp.sort(x), jnp.array([0.0, 0.5])),
            "scans": (jnp.cumsum(x), jnp.cumprod(x), lax.cummax(x), lax.cumlogsumexp(x)),
            "segments": [
                f(x, segments, num_segments=3)
                for f in (
                    jax.ops.segment_sum,
                    jax.ops.segment_prod,
                    jax.ops.segment_max,
                    jax.ops.segment_min,
                )
            ],
            "updates": (x.at[segments].add(1.0), x.at[2:4].set(0.0), x.at[segments].max(0.5)),
            "modes": (x.at[9].get(mode="fill", fill_value=-1.0), x.at[9].set(0.0, mode="drop")),
            "nonzero": jnp.nonzero(x > 0, size=6, fill_value=-1),
            "gradient": jax.grad(lambda x: (jnp.sort(x) * jnp.arange(6.0)).sum())(x),
        }

    x = np.array([0.5, -1.0, 2.0, 0.25, -0.75, 1.5], np.float32)
    return sorting_and_segments, (x, np.array([0, 1, 0, 2, 1, 0], np.int32))


@program
def convolutions_and_windows() -> Program:
    def convolutions_and_windows(images, kernel):
        dimensions = ("NHWC", "HWIO", "NHWC")
        strided = lax.conv_general_dilated(
            images, kernel, (2, 1), "SAME", rhs_dilation=(1, 2), dimension_numbers=dimensions
        )
        window = ((1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return {
            "strided": strided,
            "transposed": lax.conv_transpose(images, kernel, (2, 2), "SAME"),
            "depthwise": lax.conv_general_dilated(
                images,
                kernel.reshape(3, 3, 1, 4),
                (1, 1),
                "VALID",
                dimension_numbers=dimensions,
                feature_group_count=2,
            ),
            "max_pool": lax.reduce_window(images, -jnp.inf, lax.max, *window),
            "average_pool": lax.reduce_window(images, 0.0, lax.add, *window) / 4,
            "pool_gradient": jax.grad(
                lambda x: lax.reduce_window(x, -jnp.inf, lax.max, *window).sum()
            )(images),
            "resize": jax.image.resize(images, (1, 3, 9, 2), "bilinear"),
            "patches": lax.conv_general_dilated_patches(
                images, (2, 2), (1, 1), "VALID", dimension_numbers=dimensions
            ),
        }

    rng = np.random.RandomState(0)
    images, kernel = rng.standard_normal((1, 6, 6, 2)), rng.standard_normal((3, 3, 2, 2))
    return convolutions_and_windows, (images.astype(np.float32), kernel.astype(np.float32))
