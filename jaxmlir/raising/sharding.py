"""Shardy and collectives: shardings as constraints, manual computations as ``shard_map``.

A manual computation's region is raised as a function of its own, of plain types, in which a
collective names axes of the mesh. JAX then traces a ``shard_map`` of it, which gives every value
the type that it has on one device.

A collective lists the devices that take part as groups of their numbers. Each choice of manual axes
of the mesh gives such groups; the one that gives the collective's is searched for.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from jaxmlir._compat import core, named_axes
from jaxmlir.analysis.call_graph import CallGraph
from jaxmlir.bridge.exporter import Exporter
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import named_ops, symbols_of
from jaxmlir.dialect.ir import func, functions, ir, sdy
from jaxmlir.dialect.module import Module
from jaxmlir.errors import ImportingError
from jaxmlir.raising.arrays import combinations
from jaxmlir.raising.source import attribute
from jaxmlir.raising.writer import BodyWriter, ModuleRaiser, Values, rule

# Axis names in the text of attributes that the Python bindings do not parse.
_NAME = re.compile(r'axis_ref<name = "([^"]+)">')
_QUOTED = re.compile(r'"([^"]+)"')


class ManualMesh(NamedTuple):
    """The mesh of a manual computation, and its manual axes in the order of the mesh."""

    mesh: Mesh
    axes: tuple[str, ...]

    @property
    def abstract(self) -> AbstractMesh:
        """The mesh as seen inside the computation."""
        return self.mesh.abstract_mesh.update_axis_types(dict.fromkeys(self.axes, AxisType.Manual))

    def numbers(self, axes: Sequence[str]) -> np.ndarray:
        """The device numbers in the groups of some axes: one row for each group."""
        names = self.mesh.axis_names
        devices = np.arange(self.mesh.size).reshape(tuple(self.mesh.shape.values()))
        rest = [name for name in names if name not in axes]
        order = [names.index(name) for name in (*rest, *axes)]
        size = int(np.prod([self.mesh.shape[name] for name in axes], dtype=int))
        return devices.transpose(order).reshape(-1, size)

    def choices(self) -> list[tuple[str, ...]]:
        """The ordered choices of manual axes, shortest first."""
        counts = range(1, len(self.axes) + 1)
        return [chosen for n in counts for chosen in itertools.permutations(self.axes, n)]


# --- shardings ------------------------------------------------------------------------------------


def mesh_of(raising: ModuleRaiser, reference: ir.Attribute) -> Mesh | None:
    """The mesh of JAX devices that a sharding names; ``None`` if JAX has too few devices.

    Raises:
      ImportingError: the module has no such mesh.
    """
    if isinstance(reference, ir.FlatSymbolRefAttr):
        if reference.value not in raising.meshes:
            raise ImportingError(f"the module has no mesh @{reference.value}")
        reference = raising.meshes[reference.value]
    described = sdy.MeshAttr(reference)
    axes = [sdy.MeshAxisAttr(axis) for axis in described.axes]
    shape = [axis.size for axis in axes]
    numbers = list(described.device_ids) or range(int(np.prod(shape, dtype=int)))
    devices = jax.devices()
    if max(numbers, default=0) >= len(devices):
        return None
    chosen = np.array([devices[k] for k in numbers], object).reshape(shape)
    return Mesh(chosen, [axis.name for axis in axes])


def spec_of(sharding: Any, axes: Sequence[str] | None = None) -> PartitionSpec:
    """The mesh axes over which a sharding splits each dimension.

    Args:
      axes: the axes that count; by default all, and open dimensions are unconstrained.

    Raises:
      ImportingError: a dimension is split over a part of an axis, which JAX has no name for.
    """

    def name(reference: ir.Attribute) -> str:
        axis = sdy.AxisRefAttr(reference)
        if axis.sub_axis_info is not None:
            raise ImportingError(f"{reference} is a part of an axis; expected whole axes")
        return axis.name

    entries: list[Any] = []
    for dimension in map(sdy.DimensionShardingAttr, sharding.dimension_shardings):
        names = tuple(n for n in map(name, dimension.axes) if axes is None or n in axes)
        if not names and not dimension.is_closed and axes is None:
            entries.append(PartitionSpec.UNCONSTRAINED)
        else:
            entries.append(names[0] if len(names) == 1 else names or None)
    return PartitionSpec(*entries)


_MOVES = "all_gather all_reduce all_slice all_to_all collective_permute reduce_scatter".split()


@rule("sdy.sharding_constraint", "sdy.reshard", *(f"sdy.{name}" for name in _MOVES))
def sharding_constraint(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Constrains where a value is kept; dropped if JAX has fewer devices than the mesh. Shardy's
    own collectives are no more: on all devices together, they do not change the value.

    Also dropped in a manual computation, and on a mesh without axes, as JAX writes for random keys.
    """
    name = "sharding" if "sharding" in op.attributes else "out_sharding"
    sharding = sdy.TensorShardingAttr(op.attributes[name])
    mesh = mesh_of(w.raising, sharding.mesh_or_ref)
    if mesh is None or not mesh.axis_names or w.raising.manual is not None:
        return operands
    placed = NamedSharding(mesh, spec_of(sharding))
    return w.traced(lambda x: [lax.with_sharding_constraint(x, placed)], operands, w.types(op))


@rule("sdy.propagation_barrier", "sdy.sharding_group", "sdy.data_flow_edge")
def hint(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Dropped: where values are kept does not change what they are."""
    return operands[: len(op.results)]


@rule("sdy.named_computation")
def named_computation(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    return w.inlined(op.regions[0].blocks[0], operands)


@rule("sdy.manual_computation")
def manual_computation(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """A ``shard_map`` without ``check_vma``: the module does not say how values vary over axes."""
    in_shardings, results = _shardings(op, "in_shardings"), _shardings(op, "out_shardings")
    types = w.types(op)
    if not in_shardings and not results:
        return w.inlined(op.regions[0].blocks[0])
    reference = (in_shardings or results)[0].mesh_or_ref
    mesh = mesh_of(w.raising, reference)
    if mesh is None:
        raise ImportingError(
            f"it runs on a mesh of more devices than the {jax.device_count()} that JAX has here"
        )
    named = _QUOTED.findall(str(op.attributes["manual_axes"]))
    axes = tuple(name for name in mesh.axis_names if name in named)
    inner, symbol = w.alone(op.regions[0], "manual", ManualMesh(mesh, axes))
    _name_axes(functions(inner.importer.module))
    program = inner.of_import(inner.importer)
    _put_inside(program, inner.manual)
    body = Exporter(program).jaxpr(symbol)
    mapped = jax.shard_map(
        core.jaxpr_as_fun(body),
        mesh=mesh,
        in_specs=tuple(spec_of(sharding, axes) for sharding in in_shardings),
        out_specs=[spec_of(sharding, axes) for sharding in results],
        axis_names=set(axes),
        check_vma=False,
    )
    return w.traced(mapped, operands, types)


def _name_axes(written: dict[str, func.FuncOp]) -> None:
    """Adds the axes that callees name to the effects of ops, which were written before callees."""
    effects: dict[str, set[ir.Attribute]] = {}
    for symbol in CallGraph(written).callees_first():
        own_effects = effects[symbol] = set()
        for op, _ in named_ops(written[symbol]):
            if "jaxpr.effects" in op.attributes:
                own_effects.update(op.attributes["jaxpr.effects"])
            elif below := set().union(*(effects.get(callee, ()) for callee in symbols_of(op))):
                op.attributes["jaxpr.effects"] = ir.ArrayAttr.get(sorted(below, key=str))
                own_effects |= below


def _put_inside(program: Module, manual: ManualMesh) -> None:
    """Marks each op as inside the mesh, like the equations in a ``shard_map``."""
    ctx = ir.DictAttr.get({"cur_abstract_mesh": codec.encode(manual.abstract)})
    for function in program.functions.values():
        for op, name in named_ops(function):
            if name != "jaxpr.constant":
                op.attributes["jaxpr.ctx"] = ctx


def _shardings(op: Any, name: str) -> list[Any]:
    """The shardings of an op's operands, or of its results."""
    shardings = sdy.TensorShardingPerValueAttr(op.attributes[name]).shardings
    return list(map(sdy.TensorShardingAttr, shardings))


# --- collectives ----------------------------------------------------------------------------------


def manual_of(w: BodyWriter) -> ManualMesh:
    """The manual computation around an op.

    Raises:
      ImportingError: there is none.
    """
    if w.raising.manual is None:
        raise ImportingError(
            "expected it in a sdy.manual_computation, whose mesh says which devices take part"
        )
    return w.raising.manual


def axes_of(w: BodyWriter, op: Any) -> tuple[str, ...]:
    """The mesh axes over which a collective works; none if each group is a single device, for which
    JAX names no mesh.

    Raises:
      ImportingError: no axes of the mesh give its groups.
    """
    groups = op.attributes["replica_groups"]
    is_listed = isinstance(groups, ir.DenseIntElementsAttr)
    listed = attribute(op, "replica_groups") if is_listed else None
    if w.raising.manual is None and listed is not None and listed.shape[1:] == (1,):
        return ()
    manual = manual_of(w)
    if listed is None:
        # Newer modules name the axes instead.
        names = tuple(_NAME.findall(str(groups)))
        if names and set(names) <= set(manual.axes):
            return names
        raise ImportingError(f"expected groups of manual axes, out of {manual.axes}, got {groups}")
    for axes in manual.choices():
        numbers = manual.numbers(axes)
        # The order of the groups makes no difference.
        if np.array_equal(np.unique(numbers, axis=0), np.unique(listed, axis=0)):
            return axes
    raise ImportingError(
        f"its groups {listed.tolist()} are not along axes of the mesh {dict(manual.mesh.shape)}"
    )


def collective(w: BodyWriter, fun: Any, operands: Values, op: Any) -> Values:
    """Applies a JAX function to one device's part of each operand, with the manual axes named.
    Without a mesh, the device is alone and the operands are the results."""
    if w.raising.manual is None:
        return operands
    with named_axes(manual_of(w).abstract):
        return w.traced(lambda *xs: list(map(fun, xs)), operands, w.types(op))


_REDUCTIONS = {"add": lax.psum, "max": lax.pmax, "min": lax.pmin}


def _reduction(op: Any) -> Any:
    """JAX's reduction that combines two values as an op's region does."""
    how = combinations(op.regions[0].blocks[0], 1)
    if how is None or how[0] not in _REDUCTIONS:
        raise ImportingError(
            f"expected a reduction over devices out of {[*_REDUCTIONS]}, as in JAX"
        )
    return _REDUCTIONS[how[0]]


@rule("all_reduce", "cross-replica-sum")
def all_reduce(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    axes, reduced = axes_of(w, op), _reduction(op) if len(op.regions) else lax.psum
    return collective(w, lambda x: reduced(x, axes), operands, op)


@rule("reduce_scatter")
def reduce_scatter(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    axes, dimension = axes_of(w, op), attribute(op, "scatter_dimension")
    if _reduction(op) is not lax.psum:
        raise ImportingError("JAX has a reduce_scatter of sums only")

    def scattered(x: Any) -> Any:
        return lax.psum_scatter(x, axes, scatter_dimension=dimension, tiled=True)

    return collective(w, scattered, operands, op)


@rule("all_gather")
def all_gather(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    axes, dimension = axes_of(w, op), attribute(op, "all_gather_dim")
    gathered = functools.partial(lax.all_gather, axis_name=axes, axis=dimension, tiled=True)
    return collective(w, gathered, operands, op)


@rule("all_to_all")
def all_to_all(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    axes = axes_of(w, op)
    split, concat = (attribute(op, f"{name}_dimension") for name in ("split", "concat"))
    return collective(w, lambda x: lax.all_to_all(x, axes, split, concat, tiled=True), operands, op)


@rule("collective_broadcast")
def collective_broadcast(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Broadcasts from the first device of each group."""
    axes = axes_of(w, op)
    return collective(w, lambda x: lax.pbroadcast(x, axes, 0), operands, op)


@rule("collective_permute")
def collective_permute(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """A permutation over the fewest axes whose groups the pairs permute alike."""
    manual = manual_of(w)
    pairs = {tuple(pair) for pair in attribute(op, "source_target_pairs").tolist()}
    for axes in manual.choices():
        groups = manual.numbers(axes)
        first = groups[0].tolist()
        here = [(s, t) for s, t in pairs if s in first and t in first]
        permutation = sorted((first.index(s), first.index(t)) for s, t in here)
        if pairs == {(g[s], g[t]) for g in groups.tolist() for s, t in permutation}:
            return collective(w, lambda x: lax.ppermute(x, axes, permutation), operands, op)  # noqa: B023
    raise ImportingError(f"{sorted(pairs)} is not a permutation along axes of the mesh")


@rule("partition_id", "replica_id")
def partition_id(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """The device's number in the mesh; 0 in a module for one device.

    Raises:
      ImportingError: the module is for several devices, and names no mesh around the op.
    """
    is_partition = op.name.endswith("partition_id")
    if w.raising.manual is not None and is_partition:
        manual = w.raising.manual
        if set(manual.axes) != set(manual.mesh.axis_names):
            raise ImportingError(
                "the number of a device is not known unless all axes of the mesh are manual"
            )
        names = manual.mesh.axis_names
        with named_axes(manual.abstract):
            return w.traced(lambda: lax.axis_index(names).astype(np.uint32), [], w.types(op))
    key = "mhlo.num_partitions" if is_partition else "mhlo.num_replicas"
    attributes = w.raising.module.operation.attributes
    if key in attributes and attributes[key].value > 1:
        raise ImportingError(f"expected a module for one device, got {key} = {attributes[key]}")
    return [w.constant(np.zeros((), np.uint32))]
