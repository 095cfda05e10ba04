"""Programs on batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from jaxmlir._compat import batching, core
from jaxmlir.dialect.codec import pytrees
from jaxmlir.dialect.ir import scope
from jaxmlir.errors import ArgumentError
from jaxmlir.program import arguments
from jaxmlir.program.transforms.ends import finish, start
from jaxmlir.support.options import integer
from jaxmlir.transforms.vmap import batch_axis
from jaxmlir.transforms.vmap import vmap as vmap_function

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


def vmap(
    program: Program,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: Any = None,
    spmd_axis_name: Any = None,
) -> Program | Callable[..., Any]:
    """The program or the function that :meth:`Program.vmap` returns."""
    args_tree, _ = program.in_tree.children()
    in_dims = _flat_axes("in_axes", in_axes, args_tree, program.in_avals)
    in_dims += [0] * (len(program.in_avals) - len(in_dims))
    out_dims = _flat_axes("out_axes", out_axes, program.out_tree, program.out_avals)
    for what, name in (("axis_name", axis_name), ("spmd_axis_name", spmd_axis_name)):
        if not isinstance(name, Hashable):
            raise ArgumentError(f"{what}: expected the name of an axis, got {name!r}")
    if axis_size is None:
        options = {"axis_name": axis_name, "spmd_axis_name": spmd_axis_name}
        return _UnsizedBatch(program, in_axes, out_axes=out_axes, **options)
    axis_size = _size(axis_size)
    if not isinstance(spmd_axis_name, tuple | None):
        spmd_axis_name = (spmd_axis_name,)
    result, rules, symbol = start(program, custom_rules="none")
    with scope():
        axis = batch_axis(axis_size, axis_name, spmd_axis_name)
        batched, _ = vmap_function(rules, symbol, in_dims, axis, out_dims)
    trees = program.in_tree, _batched_tree(program, axis_size, out_axes)
    return finish(result, batched, *trees, arg_names=program.arg_names)


def _batched_tree(program: Program, axis_size: Any, out_axes: Any) -> Any:
    """The pytree of a batched result: a sparse matrix becomes a batch of matrices, as in JAX."""
    tree = program.out_tree
    if not any(kind in batching.vmappables for kind, _ in pytrees.nodes(tree)):
        return tree

    def result(_: Any) -> Any:
        return tree.unflatten([jax.numpy.zeros(x.shape, x.dtype) for x in program.out_avals])

    placeholder = jax.ShapeDtypeStruct((axis_size,), bool)
    return jax.tree.structure(jax.eval_shape(jax.vmap(result, 0, out_axes), placeholder))


def _size(axis_size: Any) -> Any:
    """The size of a batch, a number or a symbolic one."""
    size = axis_size if core.is_symbolic_dim(axis_size) else integer(axis_size)
    if size is None or (isinstance(size, int) and size < 0):
        raise ArgumentError(f"axis_size: expected a size of at least 0, got {axis_size!r}")
    return size


class _UnsizedBatch:
    """A batched program whose batch size follows from the arguments of each call."""

    def __init__(self, program: Program, in_axes: Any, **options: Any):
        self._program, self._in_axes, self._options = program, in_axes, options

    def __repr__(self) -> str:
        return f"<{self._program!r} batched along in_axes={self._in_axes}, of a size not known yet>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments.check_tree(self._program, args, kwargs)
        leaves, tree = jax.tree.flatten(args)
        dims = _prefix("in_axes", self._in_axes, tree, leaves)
        paths = [f"args{jax.tree_util.keystr(p)}" for p, _ in jax.tree.leaves_with_path(args)]
        batched = [(p, x, d) for p, x, d in zip(paths, leaves, dims, strict=True) if d is not None]
        batched += [
            (f"kwargs{jax.tree_util.keystr(p)}", x, 0) for p, x in jax.tree.leaves_with_path(kwargs)
        ]
        sizes = [self._size(*leaf) for leaf in batched]
        if any(_is_sharded(value, axis) for _, value, axis in batched):
            # JAX handles batches that are sharded over explicit mesh axes.
            return jax.vmap(self._program, self._in_axes, **self._options)(*args, **kwargs)
        if len(set(sizes)) != 1:
            sizes_text = ", ".join(
                f"{path} has {size} along axis {d}"
                for (path, _, d), size in zip(batched, sizes, strict=True)
            )
            raise ArgumentError(
                f"vmap of @{self._program.name}: expected batched arguments of one size, got "
                f"{sizes_text or 'no batched argument'}"
            )
        batch = self._program.vmap(self._in_axes, axis_size=sizes[0], **self._options)
        return batch(*args, **kwargs)

    def _size(self, path: str, value: Any, axis: int) -> int:
        aval = core.typeof(value)
        if not -len(aval.shape) <= axis < len(aval.shape):
            raise ArgumentError(
                f"vmap of @{self._program.name}: expected an axis {axis} of {path} to batch along, "
                f"got {aval.str_short(short_dtypes=True)}"
            )
        return aval.shape[axis]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _NoSize(
            f"vmap of @{self._program.name} has no {name} before its size is known; give axis_size"
        )


class _NoSize(ArgumentError, AttributeError):
    """An error that is also an ``AttributeError``, so that ``hasattr`` returns ``False``."""


def _is_sharded(value: Any, axis: int) -> bool:
    """Whether an array's type says that it is sharded along an axis, over explicit mesh axes."""
    sharding = getattr(core.typeof(value), "sharding", None)
    return sharding is not None and not sharding.mesh.empty and sharding.spec[axis] is not None


def _prefix(what: str, axes: Any, tree: Any, avals: Sequence[Any]) -> list[int | None]:
    """A pytree prefix of axes as one axis per leaf of ``tree``.  ``None`` counts as an axis."""
    if what == "in_axes" and isinstance(axes, list):
        # The arguments are a tuple, and JAX accepts a list for it.  A result may be either.
        axes = tuple(axes)
    flat: list[int | None] = []
    subtrees = pytrees.of_placeholders(tree, avals)
    try:
        jax.tree.map(
            lambda axis, subtree: flat.extend([axis] * len(jax.tree.leaves(subtree))),
            axes,
            subtrees,
            is_leaf=lambda axis: axis is None,
        )
    except ValueError:
        why = _prefix_error(axes, subtrees).replace("tree_map tree", what)
        raise ArgumentError(
            f"{what}={axes} is not a prefix of the pytree {arguments.starred(subtrees)}: {why}"
        ) from None
    return [axis if axis is None else _axis(what, i, axis) for i, axis in enumerate(flat)]


def _prefix_error(axes: Any, subtrees: Any) -> str:
    """What is wrong with a prefix; JAX's explanations would take ``None`` for an empty pytree."""
    numbered = jax.tree.map(lambda axis: 0, axes, is_leaf=lambda axis: axis is None)
    try:
        jax.tree.map(lambda axis, subtree: None, numbered, subtrees)
    except ValueError as e:
        return str(e)
    return ""


def _axis(what: str, leaf: int, given: Any) -> int:
    axis = integer(given)
    if axis is None:
        raise ArgumentError(
            f"{what}: the axis of leaf {leaf} must be an int or None, got {given!r}"
        )
    return axis


def _flat_axes(what: str, axes: Any, tree: Any, avals: Sequence[Any]) -> list[int | None]:
    """A pytree prefix of axes as one axis per leaf, negative ones counted from the end."""
    flat = _prefix(what, axes, tree, avals)
    result = []
    for i, (axis, aval) in enumerate(zip(flat, avals, strict=False)):
        if axis is not None and not hasattr(aval, "shape"):
            raise ArgumentError(f"{what}: expected None for leaf {i}, a token, got {axis}")
        ndim = len(getattr(aval, "shape", ())) + 1
        if axis is not None and not -ndim <= axis < ndim:
            raise ArgumentError(f"{what}: axis {axis} of leaf {i} is out of range for {ndim} dims")
        result.append(axis if axis is None or axis >= 0 else axis + ndim)
    return result
