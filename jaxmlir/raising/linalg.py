"""Linear algebra, Fourier transforms, and custom calls.

On a CPU, JAX lowers a factorisation to a LAPACK call, a check of the status that it returns, and
NaNs where it failed. The call becomes JAX's primitive, which has a known derivative and includes
that check. The status is computed from the NaNs.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir.dialects import stablehlo

from jaxmlir.dialect import codec
from jaxmlir.dialect.custom_calls import PYTHON_CALLBACK
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import dtype_of
from jaxmlir.errors import ImportingError
from jaxmlir.raising.arrays import held_by
from jaxmlir.raising.broadcasts import BROADCASTS
from jaxmlir.raising.derivatives import differentiated_as
from jaxmlir.raising.idioms import factored, is_number
from jaxmlir.raising.sizes import settled
from jaxmlir.raising.source import (
    STATIC,
    attribute,
    named_inside,
    python_value,
    shape_of,
    sizes_of,
    tensor,
)
from jaxmlir.raising.writer import RULES, SHAPE_OPERANDS, BodyWriter, RaisingRule, Values, rule


@rule("fft")
def fft(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    kind = getattr(lax.FftType, attribute(op, "fft_type"))
    lengths = attribute(op, "fft_length")
    return w.emit("fft", operands, w.types(op), fft_type=kind, fft_lengths=lengths)


@rule("cholesky")
def cholesky(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """The derivative is along symmetric matrices, as in JAX, so a gradient is symmetric."""
    lower = attribute(op, "lower", False)
    factor, model = (functools.partial(_factor, lower, k) for k in (False, True))
    return w.traced(differentiated_as(model, factor), operands, w.types(op))


def _factor(lower: bool, symmetrized: bool, x: Any) -> Any:
    """The factor of one triangle of a matrix, or of the mean of both triangles."""

    def adjoint(x: Any) -> Any:
        return jnp.conj(jnp.swapaxes(x, -1, -2))

    if lower:
        return lax.linalg.cholesky(x, symmetrize_input=symmetrized)
    return adjoint(lax.linalg.cholesky(adjoint(x), symmetrize_input=symmetrized))


@rule("triangular_solve")
def triangular_solve(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    transpose = attribute(op, "transpose_a")
    return w.emit(
        "triangular_solve",
        operands,
        w.types(op),
        left_side=attribute(op, "left_side"),
        lower=attribute(op, "lower"),
        transpose_a=transpose in ("TRANSPOSE", "ADJOINT"),
        conjugate_a=transpose == "ADJOINT",
        unit_diagonal=attribute(op, "unit_diagonal"),
    )


@rule("batch_norm_inference")
def batch_norm_inference(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    return w.traced(_normalized(op), operands, w.types(op))


def _normalized(op: Any) -> Callable[..., Any]:
    epsilon, axis = attribute(op, "epsilon"), attribute(op, "feature_index")

    def normalize(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        scale, offset, mean, variance = (
            lax.broadcast_in_dim(v, x.shape, (axis,)) for v in (scale, offset, mean, variance)
        )
        deviation = jnp.sqrt(variance + jnp.asarray(epsilon, x.dtype))
        return scale * ((x - mean) / deviation) + offset

    return normalize


@rule("batch_norm_training")
def batch_norm_training(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    def train(x: Any, scale: Any, offset: Any) -> Any:
        axes = tuple(d for d in range(x.ndim) if d != attribute(op, "feature_index"))
        moments = jnp.mean(x, axes), jnp.var(x, axes)
        return _normalized(op)(x, scale, offset, *moments), *moments

    return w.traced(train, operands, w.types(op))


@rule("batch_norm_grad")
def batch_norm_grad(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """The gradient of ``batch_norm_training``, at given moments instead of the operand's own."""
    epsilon = attribute(op, "epsilon")
    feature = attribute(op, "feature_index")

    def gradient(x: Any, scale: Any, mean: Any, variance: Any, cotangent: Any) -> Any:
        axes = [d for d in range(x.ndim) if d != feature]
        wide = functools.partial(jnp.expand_dims, axis=axes)
        deviation = jnp.sqrt(variance + jnp.asarray(epsilon, x.dtype))
        centered = x - wide(mean)
        offset = jnp.sum(cotangent, axes)
        along = jnp.sum(cotangent * centered, axes)
        count = math.prod(x.shape[d] for d in axes)
        rest = cotangent - wide(offset / count) - centered * wide(along / deviation**2 / count)
        return rest * wide(scale / deviation), along / deviation, offset

    return w.traced(gradient, operands, w.types(op))


@rule("chlo.top_k")
def top_k(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    if not attribute(op, "largest", True):
        raise ImportingError("expected the largest elements, got largest = false")
    axis = len(shape_of(operands[0])) - 1
    return w.emit("top_k", operands, w.types(op), k=attribute(op, "k"), axis=axis)


# --- custom calls ---------------------------------------------------------------------------------

# Ops of MHLO that have another name in CHLO.
_MHLO_NAMES = {"mhlo.topk": "top_k"}

_REFUSED = {
    PYTHON_CALLBACK: "a Python function, which is not in the module",
    re.compile("tpu_custom_call"): "a kernel that is compiled for a TPU",
}


def custom(*targets: str) -> Callable[[RaisingRule], RaisingRule]:
    """Registers the rule of some custom calls; LAPACK's are without the letter of the type."""
    return rule(*(f"{_CALL}{target}" for target in targets))


_CALL = "stablehlo.custom_call."


def config_of(op: Any) -> ir.Attribute | None:
    """The configuration of a custom call."""
    names = ("mhlo.backend_config", "backend_config")
    return next((op.attributes[name] for name in names if name in op.attributes), None)


def _option(op: Any, name: str, default: Any = None) -> Any:
    """An entry of the configuration of a custom call."""
    config = config_of(op)
    return python_value(config).get(name, default) if isinstance(config, ir.DictAttr) else default


@custom("shape_assertion")
def shape_assertion(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Writes nothing if the assertion holds for all sizes that the arguments' types allow."""
    if w.raising.asserting_block is None or w.source != w.raising.asserting_block:
        condition = w.known(operands[0])
        if condition is None or settled(condition, wrapping=False) != (True,):
            raise ImportingError(
                f"its assertion does not follow from the types of the arguments; {STATIC}"
            )
    return []


@rule("custom_call")
def custom_call(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    target = attribute(op, "call_target_name")
    if SHAPE_OPERANDS in op.attributes:
        shapes = attribute(op, SHAPE_OPERANDS)
        operands = [v for k, v in enumerate(operands) if k not in shapes]
    apply_rule = RULES.get(_CALL + re.sub(r"^lapack_[sdcz]", "lapack_", target))
    if apply_rule is not None:
        return apply_rule(w, op, operands)
    for prefix in ("mhlo.", "chlo."):
        meant = f"chlo.{_MHLO_NAMES.get(target, target.removeprefix(prefix))}"
        if target.startswith(prefix) and meant in RULES:
            return RULES[meant](w, named_inside(op, meant, "mhlo.attributes"), operands)
    for pattern, what in _REFUSED.items():
        if pattern.fullmatch(target):
            raise ImportingError(f"the custom call @{target} runs {what}")
    return ffi_call(w, op, operands, target)


_TYPED = 4
"""The version of custom calls whose configuration is a dictionary of typed attributes."""


def ffi_call(w: BodyWriter, op: Any, operands: list[ir.Value], target: str) -> Values:
    """A call of an unknown foreign function: it can run, and has no derivative."""
    attributes = {}
    legacy = None
    version, config = attribute(op, "api_version", 1), config_of(op)
    if isinstance(config, ir.DictAttr):
        # JAX writes version 1 beside a dictionary, which only typed calls have.
        version = _TYPED
        attributes = {item.name: _ffi_value(item.attr) for item in config}
    elif isinstance(config, ir.StringAttr) and config.value:
        legacy = config.value
    types = w.types(op)
    results = [jax.ShapeDtypeStruct(sizes_of(t), dtype_of(t.element_type)) for t in types]
    aliases = {}
    for alias in (
        op.attributes["output_operand_aliases"] if "output_operand_aliases" in op.attributes else ()
    ):
        parsed = stablehlo.OutputOperandAlias(alias)
        aliases[parsed.operand_index] = (list(parsed.output_tuple_indices) or [0])[0]
    names = {"input_layouts": "operand_layouts", "output_layouts": "result_layouts"}
    layouts = {ours: _layouts(op, theirs) for ours, theirs in names.items()}
    call = jax.ffi.ffi_call(
        target,
        results,
        has_side_effect=attribute(op, "has_side_effect", False),
        input_output_aliases=aliases or None,
        custom_call_api_version=version,
        legacy_backend_config=legacy,
        **{name: value for name, value in layouts.items() if value},
    )
    return w.traced(lambda *args: list(call(*args, **attributes)), operands, types)


def _layouts(op: Any, name: str) -> Any:
    """The layouts of operands or results, from the major dimension to the minor one."""
    if name not in op.attributes:
        return None
    minor_to_major = map(ir.DenseIntElementsAttr, op.attributes[name])
    return [tuple(reversed(list(dimensions))) for dimensions in minor_to_major]


def _ffi_value(attr: ir.Attribute) -> Any:
    """An attribute of a foreign function as JAX takes it: numbers keep their bit width.

    Raises:
      ImportingError: JAX has no such attribute.
    """
    if isinstance(attr, (ir.BoolAttr, ir.StringAttr)):
        return attr.value
    if isinstance(attr, (ir.IntegerAttr, ir.FloatAttr)):
        return dtype_of(attr.type).type(attr.value)
    if isinstance(attr, ir.DictAttr):
        return {item.name: _ffi_value(item.attr) for item in attr}
    if isinstance(attr, ir.ArrayAttr):
        return tuple(map(_ffi_value, attr))
    if isinstance(attr, ir.DenseElementsAttr):
        return codec.decode(attr)
    if element := re.match(r"array<(\w+)", str(attr)):
        return np.array([*attr], dtype_of(ir.Type.parse(element[1])))
    raise ImportingError(
        f"expected numbers, strings, arrays and dictionaries as attributes of a foreign function, "
        f"got {attr}"
    )


@custom("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
def identity(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Dropped: where values are kept does not change what they are."""
    (type_,) = w.types(op)
    if operands[0].type != type_:
        raise ImportingError("values that differ from device to device cannot be raised")
    return operands


def _status(
    w: BodyWriter, op: Any, result: ir.Value, type_: ir.Type, core_rank: int = 2
) -> ir.Value:
    """LAPACK's status: 1 where it failed, i.e. where the primitive gives NaNs, and else 0.

    If JAX only uses the status to select NaNs, it is 0: the primitive's results have the NaNs.
    """
    status = list(op.results)[-1]
    guarded = _guarded(status, set(op.results))
    if guarded is not None:
        w.passed_on.update(guarded)
        return w.filled(type_, 0)

    def failed(x: Any) -> Any:
        for _ in range(core_rank):
            if x.shape[-1] == 0:
                return jnp.zeros(sizes_of(type_), np.int32)
            x = x[..., 0]
        return (x != x).astype(np.int32)

    return w.traced(failed, [result], [type_])[0]


# JAX compares a status with 0 and broadcasts the result to the elements of a factor.
_SPREADING = BROADCASTS | {"stablehlo.reshape"}


def _guarded(status: ir.Value, results: set[ir.Value]) -> dict[Any, ir.Value] | None:
    """The selects between a result and NaNs that depend on the status, each with that result;
    ``None`` if the status has another use."""
    selects: dict[Any, ir.Value] = {}
    pending = [use.owner.operation for use in status.uses]
    for user in pending:
        if user.name == "stablehlo.select":
            _, value, nans = user.operands
            if not (_is_of(value, results) and _is_nan(nans)):
                return None
            selects[user] = value
        elif user.name in _SPREADING or attribute(user, "comparison_direction") in ("EQ", "GE"):
            pending += [use.owner.operation for use in user.results[0].uses]
        else:
            return None
    return selects


def _is_of(value: ir.Value, results: set[ir.Value]) -> bool:
    """Whether a value is a result of a call, or a complex number made of two results."""
    if value in results:
        return True
    op = value.owner
    if isinstance(op, ir.Block) or op.operation.name != "stablehlo.complex":
        return False
    return all(v in results for v in op.operands)


def _is_nan(value: ir.Value) -> bool:
    held = held_by(value)
    return held is not None and bool((held != held).all())


def _letter(op: Any, name: str) -> str:
    return chr(_option(op, name, 0))


@custom("lapack_potrf_ffi")
def potrf(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    type_, status = w.types(op)
    (x,) = operands
    if _letter(op, "uplo") == "U":
        (factor,) = w.traced(functools.partial(_factor, False, False), [x], [type_])
    else:
        factor = w.one("cholesky", [x], type_)
    return [factor, _status(w, op, factor, status)]


@custom("lapack_getrf_ffi")
def getrf(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """LAPACK counts pivots from 1; a singular matrix is no failure."""
    type_, pivots, status = w.types(op)
    rows = tensor([*shape_of(operands[0])[:-1]], pivots.element_type)
    factors, pivot_rows, _ = w.emit("lu", operands, [type_, pivots, rows])
    _status(w, op, factors, status)
    users = [use.owner.operation for use in op.results[1].uses]
    one = np.int32(1)
    if all(u.name == "stablehlo.subtract" and is_number(u.operands[1], one) for u in users):
        # JAX subtracts 1 to count from 0, as the primitive does.
        w.passed_on.update(dict.fromkeys(users, op.results[1]))
    else:
        pivot_rows = w.one("add", [pivot_rows, w.filled(pivots, 1)], pivots)
    return [factors, pivot_rows, w.filled(status, 0)]


@custom("lapack_geqrf_ffi", "lapack_geqp3_ffi")
def geqrf(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    pivoting = "geqp3" in attribute(op, "call_target_name")
    factored(w, op, _QR[pivoting])
    return w.emit("geqp3" if pivoting else "geqrf", operands, w.types(op))


_QR = [
    [functools.partial(lax.linalg.qr, full_matrices=full, pivoting=on) for full in (False, True)]
    for on in (False, True)
]
"""QR decompositions without and with pivoting."""


@custom("lapack_orgqr_ffi", "lapack_ungqr_ffi")
def orgqr(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    return w.emit("householder_product", operands, w.types(op))


@custom("lapack_ormqr_ffi", "lapack_unmqr_ffi")
def ormqr(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    sides = {name: bool(_option(op, name, False)) for name in ("left", "transpose")}
    return w.emit("ormqr", operands, w.types(op), **sides)


@custom("lapack_syevd_ffi", "lapack_heevd_ffi")
def syevd(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    vectors, values, status = w.types(op)
    lower = _letter(op, "uplo") == "L"
    eigenpairs = w.emit("eigh", operands, [vectors, values], lower=lower)
    return [*eigenpairs, _status(w, op, eigenpairs[1], status, 1)]


@custom("lapack_gesdd_ffi", "lapack_gesvd_ffi")
def gesdd(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    overwritten, s, u, vt, status = w.types(op)
    mode = _letter(op, "mode")
    params: dict[str, Any] = {"full_matrices": mode == "A", "compute_uv": mode != "N"}
    if "gesvd" in attribute(op, "call_target_name"):
        params["algorithm"] = lax.linalg.SvdAlgorithm.QR
    types = [s, u, vt] if mode != "N" else [s]
    factors = w.emit("svd", operands, types, **params)
    vectors = factors[1:] or [w.filled(t, 0) for t in (u, vt)]
    return [w.filled(overwritten, 0), factors[0], *vectors, _status(w, op, factors[0], status, 1)]


@custom("lapack_geev_ffi")
def geev(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    *values, left, right, status = w.types(op)
    flags = [_letter(op, f"compute_{side}") == "V" for side in ("left", "right")]
    eigenvalues = tensor(values[0].shape, left.element_type)
    types = [eigenvalues, *(t for t, want in zip((left, right), flags, strict=True) if want)]
    sides = ("compute_left_eigenvectors", "compute_right_eigenvectors")
    outs = w.emit("eig", operands, types, **dict(zip(sides, flags, strict=True)))
    lambdas, computed = outs[0], iter(outs[1:])
    vectors = [next(computed) if want else w.filled(left, 0) for want in flags]
    status_value = _status(w, op, lambdas, status, 1)
    parts = [lambdas]
    if len(values) == 2:
        parts = [w.one(part, [lambdas], values[0]) for part in ("real", "imag")]
    return [*parts, *vectors, status_value]


@custom("lapack_trsm_ffi")
def trsm(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    transpose = _letter(op, "trans_x")
    return w.emit(
        "triangular_solve",
        operands[:2],
        w.types(op),
        left_side=_letter(op, "side") == "L",
        lower=_letter(op, "uplo") == "L",
        transpose_a=transpose in "TC",
        conjugate_a=transpose == "C",
        unit_diagonal=_letter(op, "diag") == "U",
    )


@custom("lapack_gehrd_ffi")
def gehrd(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    *types, status = w.types(op)
    factors = w.emit("hessenberg", operands, types)
    return [*factors, _status(w, op, factors[0], status)]


@custom("lapack_sytrd_ffi", "lapack_hetrd_ffi")
def sytrd(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    *types, status = w.types(op)
    factors = w.emit("tridiagonal", operands, types, lower=_letter(op, "uplo") == "L")
    return [*factors, _status(w, op, factors[0], status)]


@custom("lapack_gtsv_ffi")
def gtsv(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """JAX does not use the diagonals that LAPACK overwrites."""
    *diagonals, solution, status = w.types(op)
    solved = w.one("tridiagonal_solve", operands, solution)
    return [*(w.filled(t, 0) for t in diagonals), solved, _status(w, op, solved, status)]


@custom("ApproxTopK")
def approx_top_k(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """The comparator's name tells whether the largest or the smallest elements are wanted."""
    (comparator,) = attribute(op, "called_computations")
    values, indices = w.types(op)
    params: dict[str, Any] = {
        "k": _option(op, "top_k"),
        "reduction_dimension": _option(op, "reduction_dim"),
        "is_max_k": comparator.startswith("top_k_gt_"),
    }
    same = ("recall_target", "reduction_input_size_override", "aggregate_to_topk")
    params |= {name: _option(op, name) for name in same}
    return w.emit("approx_top_k", operands[:1], [values, indices], **params)


@custom("tridiagonal_solve_perturbed_ffi")
def perturbed(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    return w.emit("tridiagonal_solve", operands, w.types(op), perturb_singular=True)


@custom("lapack_gees_ffi")
def gees(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    form, vectors, *values, selected, status = w.types(op)
    with_vectors = _letter(op, "mode") == "V"
    types = [form, vectors] if with_vectors else [form]
    factors = w.emit(
        "schur", operands, types, compute_schur_vectors=with_vectors, sort_eig_vals=False
    )
    rest = [w.filled(t, 0) for t in ([] if with_vectors else [vectors]) + values + [selected]]
    return [*factors, *rest, _status(w, op, factors[0], status)]
