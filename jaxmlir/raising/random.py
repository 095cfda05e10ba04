"""Random bits: the ops of StableHLO, and the function that JAX lowers its generator to."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.random import threefry2x32_p

from jaxmlir.dialect.ir import body_of, functions, ir
from jaxmlir.errors import ImportingError
from jaxmlir.raising.elementwise import type_of_elements
from jaxmlir.raising.linalg import custom
from jaxmlir.raising.matching import computation, written_by_jax
from jaxmlir.raising.source import attribute, shape_of, sizes_of, tensor
from jaxmlir.raising.writer import BodyWriter, Values, rule


@rule("rng_bit_generator")
def rng_bit_generator(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """JAX generates unsigned bits only; elements of another type are bitcast from them."""
    state, result = w.types(op)
    if list(state.shape) != [2] or str(state.element_type) != "ui64":
        raise ImportingError(f"expected a state of type tensor<2xui64>, as in JAX, got {state}")
    width = result.element_type.width
    if width < 8:
        raise ImportingError(f"expected bits in elements of 8 bits or more, got {result}")
    bits = tensor(sizes_of(result), ir.IntegerType.get_unsigned(width))
    algorithm = getattr(lax.RandomAlgorithm, f"RNG_{attribute(op, 'rng_algorithm')}")
    after, random_bits = w.emit(
        "rng_bit_generator",
        operands,
        [state, bits],
        shape=tuple(bits.shape),
        dtype=type_of_elements(bits),
        algorithm=algorithm,
    )
    if bits != result:
        dtype = type_of_elements(result)
        random_bits = w.one("bitcast_convert_type", [random_bits], result, new_dtype=dtype)
    return [after, random_bits]


@rule("rng")
def rng(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    if attribute(op, "rng_distribution") != "UNIFORM":
        raise ImportingError("JAX's stateful generator has uniform numbers only, not normal ones")
    return w.emit("rng_uniform", operands[:2], [type_], shape=tuple(type_.shape))


@custom("cu_threefry2x32_ffi", "cu_threefry2x32", "hip_threefry2x32_ffi", "hip_threefry2x32")
def threefry(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    return w.emit("threefry2x32", operands[:4], w.types(op))


def is_threefry(function: Any, source: dict[str, Any]) -> bool:
    """Whether a function is the one that JAX lowers ``threefry2x32`` to, as a loop or unrolled.

    The name is not enough: any function may have it.
    """
    block = body_of(function)
    arguments = list(block.arguments)
    if len(arguments) != 4:
        return False
    shapes = tuple(shape_of(v) for v in arguments)
    key, counter = shapes[1:3]
    # If other values in the function have that type, it cannot be renamed.
    if key == () and counter not in ((), (1,), (4,)) and shapes == (key, key, counter, counter):
        return computation(block, source, {arguments[2].type: "counter"}) in _threefries(None)
    return computation(block, source) in _threefries(shapes)


@functools.cache
def _threefries(shapes: tuple[tuple[int, ...], ...] | None) -> frozenset[tuple[str, ...]]:
    """JAX's lowerings of ``threefry2x32`` on each platform, for operands of some shapes. ``None``
    means a scalar key, and counters whose type is renamed to ``counter``."""
    args = [jax.ShapeDtypeStruct(s, np.uint32) for s in shapes or ((), (), (3,), (3,))]
    texts = set()
    for platform in ("cpu", "tpu"):
        module = written_by_jax(threefry2x32_p.bind, args, platform)
        source = functions(module) if module else {}
        for function in source.values():
            block = body_of(function)
            renamed = {} if shapes else {block.arguments[-1].type: "counter"}
            texts.add(computation(block, source, renamed))
    return frozenset(texts)
