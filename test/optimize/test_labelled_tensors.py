"""Labelled tensors of ops: an Einstein sum over the dimensions' labels gives JAX's results."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from jax import lax
from sampling import examples

from jaxmlir.analysis.index_maps import MappedOp
from jaxmlir.optimize.algebra.labelled_tensors.kinds import wiring_of

SIZES = st.integers(1, 3)


def reduced(x, axes):
    return lax.reduce(x, np.float32(0), lax.add, axes)


@st.composite
def ops(draw):
    """An op, its attributes, JAX's function of it, and the shapes of its operands."""
    shape = tuple(draw(st.lists(SIZES, max_size=4)))
    dims = range(len(shape))
    kind = draw(st.sampled_from(["transpose", "reduce_sum", "broadcast_in_dim", "reshape", "dot"]))
    if kind == "transpose":
        order = tuple(draw(st.permutations(dims)))
        return kind, {"permutation": order}, lambda x: lax.transpose(x, order), [shape]
    if kind == "reduce_sum":
        axes = tuple(d for d in dims if draw(st.booleans()))
        return kind, {"axes": axes}, lambda x: reduced(x, axes), [shape]
    if kind == "broadcast_in_dim":
        new = [*shape, *draw(st.lists(SIZES, max_size=2))]
        at = sorted(draw(st.permutations(range(len(new))))[: len(shape)])
        new = [draw(SIZES) if d not in at else 0 for d in range(len(new))]
        for d, size in zip(at, shape, strict=True):
            new[d] = size if size > 1 else draw(SIZES)
        attributes = {"broadcast_dimensions": tuple(at)}
        return kind, attributes, lambda x: lax.broadcast_in_dim(x, new, at), [shape]
    if kind == "reshape":
        order = tuple(draw(st.permutations(dims))) if draw(st.booleans()) else None
        parts = draw(st.permutations([*shape, 1]))
        groups = draw(st.lists(st.integers(1, 2), min_size=len(parts), max_size=len(parts)))
        new = []
        while parts:
            count = groups.pop()
            new.append(int(np.prod(parts[:count])))
            parts = parts[count:]
        attributes = {"new_sizes": tuple(new), "dimensions": order}
        return kind, attributes, lambda x: lax.reshape(x, new, order), [shape]
    shared = draw(st.lists(st.sampled_from(["batch", "sum"]), max_size=len(shape)))
    own = tuple(draw(st.lists(SIZES, max_size=2)))
    order = draw(st.permutations(range(len(shared) + len(own))))
    sizes = [*shape[: len(shared)], *own]
    at = {k: d for d, k in enumerate(order)}
    numbers = tuple(
        tuple(
            tuple(side[k] if side else k for k, kind in enumerate(shared) if kind == name)
            for side in (None, at)
        )
        for name in ("sum", "batch")
    )
    shapes = [shape, tuple(sizes[k] for k in order)]
    attributes = {"dimension_numbers": numbers}
    return "dot_general", attributes, lambda x, y: lax.dot_general(x, y, numbers), shapes


@examples(150)
@hypothesis.given(op=ops())
def test_ops_are_sums_over_labels(op):
    name, attributes, function, shapes = op
    rng = np.random.RandomState(0)
    operands = [rng.randint(-3, 4, shape).astype(np.float32) for shape in shapes]
    want = np.asarray(function(*operands))
    wiring = wiring_of(MappedOp(name, attributes.get, shapes, [want.shape], want.dtype))
    if wiring is None:
        # Only a reshape splits dimensions into parts that the other tensor does not have.
        assert name == "reshape"
        return
    inputs = []
    for x, dims in zip(operands, wiring.operands, strict=True):
        labels = [k for of_dim in dims for k in of_dim]
        inputs += [x.reshape([wiring.sizes[k] for k in labels]), labels]
    out = [k for of_dim in wiring.result for k in of_dim]
    for k in set(out).difference(*inputs[1::2]):
        inputs += [np.ones(wiring.sizes[k]), [k]]
    np.testing.assert_array_equal(np.einsum(*inputs, out).reshape(want.shape), want)
    assert wiring.is_whole or name == "reshape"


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ((6, 4), (3, 8), [2, 1]),
        ((2, 1, 3), (6,), [1, 0, 1]),
        ((2, 6), (3, 4), None),
        ((0, 2), (2, 0), None),
    ],
)
def test_dimensions_are_split_where_both_can_be(old, new, counts):
    wiring = wiring_of(MappedOp("reshape", {}.get, [old], [new], np.float32))
    assert (wiring and list(map(len, wiring.operands[0]))) == counts
