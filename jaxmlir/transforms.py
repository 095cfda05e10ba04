"""The transformations as functions of programs: pytrees around the passes.

Each returns a new program whose public function is the transformed one.  Arguments, ``argnums``,
``has_aux``, ``in_axes`` ... mean what they mean in JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax

from jaxmlir import arguments, locations, pytrees
from jaxmlir._collector import collector_paused
from jaxmlir._compat import core
from jaxmlir.errors import ArgumentError, JaxmlirError, TransformError, count
from jaxmlir.ir import func, ir, is_private, scope
from jaxmlir.passes._build import (
    adapt,
    make_public,
    put_in_order,
    reachable,
    returned,
    set_results,
    zeros,
)
from jaxmlir.passes._library import Loans, library_first, volumes_for
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._volume import Copy, NotLent, Volume
from jaxmlir.passes.checkpoint_while import checkpoint_while
from jaxmlir.passes.dedupe_functions import dedupe_functions, rename_functions, short_name
from jaxmlir.passes.discharge_refs import discharge_refs, makes_references
from jaxmlir.passes.jvp import active_arguments, tangent_type_of
from jaxmlir.passes.jvp import jvp as jvp_function
from jaxmlir.passes.linearize import Linearized
from jaxmlir.passes.linearize import linearize as linearize_function
from jaxmlir.passes.transpose import cotangent_type
from jaxmlir.passes.vjp import Pullback
from jaxmlir.passes.vjp import grad as grad_function
from jaxmlir.passes.vjp import vjp as vjp_function
from jaxmlir.specialize import sizes_missing_in
from jaxmlir.types import aval_of, type_of

if TYPE_CHECKING:
    from jaxmlir.program import Program


@collector_paused
@library_first
def jvp(program: Program, custom_vjp_forward: str = "error") -> Program:
    """The program ``(primals, tangents) -> (result, tangent of result)``.

    Args:
      custom_vjp_forward: what becomes of functions with a custom VJP rule, which have no JVP in
        JAX.  ``"error"``: running the result is an error that names the rule.  ``"transpose"``: the
        backward rule is transposed, if its ops show that it is linear in the cotangent.

    Raises:
      TransformError: an op cannot be differentiated, or a backward rule is not linear.
    """
    _check_forward(custom_vjp_forward)
    args_tree, out_tree = _args_tree(program, "jvp"), program.out_tree
    result, rules, symbol = _start(program, lends=custom_vjp_forward == "error")
    with scope():
        function = result.function(symbol)
        active = active_arguments(result, symbol, ())
        core_symbol, active_out = jvp_function(rules, symbol, active)
        inputs, outputs = list(function.type.inputs), list(function.type.results)
        arguments = [
            *((t, True) for t in inputs),
            *zip(map(tangent_type_of, inputs), active, strict=True),
        ]
        results = [
            *((t, True) for t in outputs),
            *zip(map(tangent_type_of, outputs), active_out, strict=True),
        ]
        if custom_vjp_forward == "transpose":
            _expand_custom_lin(rules, core_symbol)
        new = adapt(rules, core_symbol, f"{symbol}.jvp", arguments, results)
        copies = rules.functions.copy_in(new)
    in_tree, tree = _arguments(args_tree, args_tree), _tuple([out_tree, out_tree])
    return _finish(result, new, in_tree, tree, f"{symbol}.jvp", copies=copies)


def _check_forward(custom_vjp_forward: str) -> None:
    if custom_vjp_forward not in ("error", "transpose"):
        raise ArgumentError(
            f"custom_vjp_forward must be 'error' or 'transpose', got {custom_vjp_forward!r}"
        )


def _expand_custom_lin(rules: Rules, symbol: str) -> None:
    from jaxmlir.passes.expand_custom_lin import expand_custom_lin

    expand_custom_lin(rules, [symbol])


@collector_paused
@library_first
def linearize(
    program: Program,
    while_loops: str = "error",
    checkpoints: int | None = None,
    custom_vjp_forward: str = "error",
) -> tuple[Program, Program]:
    """Two programs: ``fwd(*args) -> (result, residuals)`` and ``lin(residuals, *tangents) ->
    tangent of result``.

    Args:
      custom_vjp_forward: as for :func:`jvp`, in ``lin``.
    """
    _check_forward(custom_vjp_forward)
    args_tree, out_tree = _args_tree(program, "linearize"), program.out_tree
    lends = custom_vjp_forward == "error"
    result, rules, symbol = _start(program, while_loops, checkpoints, lends=lends)
    with scope():
        function = result.function(symbol)
        active = active_arguments(result, symbol, ())
        found = linearize_function(rules, symbol, active)
        if custom_vjp_forward == "transpose":
            _expand_custom_lin(rules, found.lin)
        inputs, outputs = function.type.inputs, function.type.results
        tangents = list(zip(map(tangent_type_of, inputs), active, strict=True))
        results = list(zip(map(tangent_type_of, outputs), found.active_out, strict=True))
    trees = args_tree.children(), out_tree
    return _pair(program, rules, found, found.lin, f"{symbol}.lin", tangents, results, *trees)


@collector_paused
@library_first
def vjp(
    program: Program, while_loops: str = "error", checkpoints: int | None = None
) -> tuple[Program, Program]:
    """Two programs: ``fwd(*args) -> (result, residuals)`` and ``bwd(residuals, cotangent) ->
    (*cotangents of args)``."""
    args_tree, out_tree = _args_tree(program, "vjp"), program.out_tree
    result, rules, symbol = _start(program, while_loops, checkpoints, reverse=True, lends=True)
    with scope():
        function = result.function(symbol)
        active = active_arguments(result, symbol, ())
        found = vjp_function(rules, symbol, active)
        inputs, outputs = function.type.inputs, function.type.results
        cotangents = list(zip(map(cotangent_type, outputs), found.active_out, strict=True))
        results = list(zip(map(cotangent_type, inputs), active, strict=True))
    trees = [out_tree], args_tree
    return _pair(program, rules, found, found.bwd, f"{symbol}.bwd", cotangents, results, *trees)


def _pair(
    program: Program,
    rules: Rules,
    halves: Linearized | Pullback,
    linear: str,
    name: str,
    operands: Sequence[tuple[ir.Type, bool]],
    results: Sequence[tuple[ir.Type, bool]],
    in_trees: Sequence[Any],
    out_tree: Any,
) -> tuple[Program, Program]:
    """The program ``(*args) -> (result, residuals)``, and ``name``: ``(residuals, *operands) ->
    results``.

    Args:
      linear: the symbol of a function of the residuals, and of those operands that matter.
      operands: their types, and which ``@linear`` takes.
      results: their types, and which ``@linear`` gives; the others are zero.
      in_trees: the pytree of each operand of the program.
    """
    with scope():
        inputs = list(rules.program.function(linear).type.inputs)
        residuals = [(t, True) for t in inputs[: halves.num_residuals]]
        fwd, sizes = _with_sizes(program, rules, halves, [*residuals, *operands])
        residuals += [(t, False) for t in sizes]
        new = adapt(rules, linear, name, [*residuals, *operands], results)
        copies = rules.functions.copy_in(fwd, new)
    residual_tree = jax.tree.structure((0,) * len(residuals))
    fwd_out = _tuple([program.out_tree, residual_tree])
    in_tree = _arguments(residual_tree, *in_trees)
    return (
        _finish(
            rules.program.clone(),
            fwd,
            program.in_tree,
            fwd_out,
            f"{program.name}.fwd",
            names=program.arg_names,
            copies=copies,
        ),
        _finish(rules.program, new, in_tree, out_tree, name, copies=copies),
    )


def _with_sizes(
    program: Program,
    rules: Rules,
    halves: Linearized | Pullback,
    operands: Sequence[tuple[ir.Type, bool]],
) -> tuple[str, list[ir.Type]]:
    """``@halves.fwd`` with what is to be handed on beside its residuals, and the types of that.

    The other half knows symbolic sizes by its operands' shapes.  Where these do not tell them, as
    ``f32[a * b]`` does not, it is given an array without elements whose shape does.
    """
    missing = sizes_missing_in([aval_of(type_) for type_, _ in operands], program)
    if missing is None:
        return halves.fwd, []
    type_, sizes = rules.program.function(halves.fwd).type, type_of(missing)
    taken, given = ([(t, True) for t in side] for side in (type_.inputs, type_.results))
    fwd = adapt(rules, halves.fwd, f"{program.name}.fwd", taken, [*given, (sizes, False)])
    num_residuals = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), halves.num_residuals + 1)
    rules.program.function(fwd).attributes["jaxpr.num_res"] = num_residuals
    return fwd, [sizes]


@collector_paused
@library_first
def grad(
    program: Program,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
    value: bool = False,
    while_loops: str = "error",
    checkpoints: int | None = None,
) -> Program:
    """The gradient of a scalar-valued program, as ``jax.grad`` (``jax.value_and_grad``) gives it.

    Args:
      value: also the value.
      while_loops: what becomes of loops whose trip count is known only when they run: ``"error"``
        or ``"checkpointed"``.
      checkpoints: how many states of such a loop are kept.

    Raises:
      ArgumentError: ``argnums`` name no argument.
      TransformError: the result is not a real scalar, an argument has no gradient, or an op cannot
        be differentiated.
    """
    (args_tree, _), out_tree = program.in_tree.children(), program.out_tree
    positions = _to_differentiate(argnums, args_tree)
    chosen = _leaves_of(args_tree, positions)
    value_tree, aux_tree = _value_and_aux(program) if has_aux else (out_tree, None)
    if not jax.tree_util.treedef_is_leaf(value_tree):
        raise TransformError(
            f"the gradient of @{program.name} is that of a scalar; its result is {value_tree}"
        )
    _check_dtypes(program, chosen, allow_int, holomorphic)
    result, rules, symbol = _start(program, while_loops, checkpoints, reverse=True, lends=True)
    with scope():
        inputs = list(result.function(symbol).type.inputs)
        tangible = active_arguments(result, symbol, ())
        wanted = frozenset(chosen)
        active = tuple(i in wanted and a for i, a in enumerate(tangible))
        new = grad_function(rules, symbol, active, has_aux=has_aux, value=value)
        function = result.function(new)
        outs = returned(function)
        values, outs = (outs[:1], outs[1:]) if value else ([], outs)
        n = sum(active)
        found = dict(zip((i for i, a in enumerate(active) if a), outs[:n], strict=True))
        aux = outs[n:]
        with ir.InsertionPoint.at_block_terminator(function.entry_block), function.location:
            gradients = [
                found[i] if i in found else zeros(cotangent_type(inputs[i])) for i in chosen
            ]
        first = [*values, *aux] if value else []
        set_results(function, [*first, *gradients, *([] if value else aux)])
        copies = rules.functions.copy_in(new)
    pieces = [args_tree.children()[i] for i in positions]
    grads = _tuple(pieces) if isinstance(argnums, Iterable) else pieces[0]
    if value:
        first_tree = value_tree if aux_tree is None else _tuple([value_tree, aux_tree])
        tree = _tuple([first_tree, grads])
    else:
        tree = grads if aux_tree is None else _tuple([grads, aux_tree])
    return _finish(result, new, program.in_tree, tree, f"{symbol}.grad", program.arg_names, copies)


def _value_and_aux(program: Program) -> list[Any]:
    """The pytrees of the two that a program returns.

    Raises:
      TransformError: it returns something else.
    """
    tree = program.out_tree
    node = tree.node_data()
    if node is None or not issubclass(node[0], (tuple, list)) or len(tree.children()) != 2:
        raise TransformError(
            f"has_aux: @{program.name} must return a pair (value, auxiliary), it returns {tree}"
        )
    return tree.children()


def jacobian(
    program: Program,
    kind: str,
    while_loops: str = "error",
    checkpoints: int | None = None,
    **options: Any,
) -> Program:
    """``jax.jacfwd``, ``jax.jacrev`` or ``jax.hessian`` of a program, as a program.

    These are compositions of jvp, vjp and vmap with pytree bookkeeping: JAX composes them, and the
    passes do the work, for a program inside JAX code is transformed by them.

    Raises:
      ArgumentError: ``argnums`` name no argument.
      TransformError: an argument or result has no such derivative, or an op cannot be
        differentiated.
    """
    from jaxmlir.staging import trace

    _to_differentiate(options["argnums"], program.in_tree.children()[0])
    program, _, _ = _start(program, while_loops, checkpoints, custom_rules="all")

    def transformed(*args: Any, **kwargs: Any) -> Any:
        return getattr(jax, kind)(program, **options)(*args, **kwargs)

    transformed = arguments.called(program, transformed, f"{program.name}.{kind}")
    try:
        with program.widths:
            args, kwargs = arguments.abstract(program)
            return trace(transformed)(*args, **kwargs)
    except JaxmlirError:
        raise
    except (TypeError, ValueError) as e:  # what JAX says of dtypes, of ``has_aux``, of no results
        raise TransformError(f"{kind} of @{program.name}: {e}") from e
    except core.InconclusiveDimensionOperation as e:  # JAX cuts the Jacobian at sums of sizes
        advice = f"program.specialize(...).{kind}() is that at given sizes"
        raise TransformError(f"{kind} of @{program.name}: {advice}; {e}") from e


@collector_paused
@library_first
def vmap(
    program: Program,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: Any = None,
    spmd_axis_name: Any = None,
) -> Program | Callable[..., Any]:
    """The program on batches, as ``jax.vmap``.

    Args:
      in_axes, out_axes: pytree prefixes of the arguments and the result.
      axis_size: the batch's size.  Without it the result is a function that is specialised, once
        per size, by its arguments.

    Raises:
      ArgumentError: axes do not fit the arguments, or sizes disagree.
      TransformError: an op cannot be batched, or a batched result has the axis ``None``.
    """
    from jaxmlir.passes.vmap import batch_axis
    from jaxmlir.passes.vmap import vmap as vmap_function

    args_tree, _ = program.in_tree.children()
    in_dims = _flat_axes("in_axes", in_axes, args_tree, program.in_avals)
    in_dims += [0] * (len(program.in_avals) - len(in_dims))
    out_dims = _flat_axes("out_axes", out_axes, program.out_tree, program.out_avals)
    is_negative = core.is_constant_dim(axis_size) and axis_size < 0
    if not (axis_size is None or core.is_dim(axis_size)) or is_negative:
        raise ArgumentError(f"axis_size: expected a size from 0 on, got {axis_size!r}")
    if axis_size is None:
        return _Unsized(program, in_axes, out_axes, axis_name, spmd_axis_name)
    # A symbolic size, and the name of an axis, mean something to one program only.
    lends = isinstance(axis_size, int) and axis_name is None and spmd_axis_name is None
    result, rules, symbol = _start(program, custom_rules="none", lends=lends)
    with scope():
        axis = batch_axis(axis_size, axis_name, spmd_axis_name)
        new, _ = vmap_function(rules, symbol, in_dims, axis, out_dims)
        copies = rules.functions.copy_in(new)
    trees = program.in_tree, program.out_tree
    return _finish(result, new, *trees, names=program.arg_names, copies=copies)


class _Unsized:
    """A batched program that waits for its arguments to learn the size of the batch."""

    def __init__(self, program: Program, *options: Any):
        self._program = program
        self._in_axes, *self._rest = options

    def __repr__(self) -> str:
        return f"<{self._program!r} batched along in_axes={self._in_axes}, of a size still to come>"

    def _of_size(self, size: int) -> Program:
        out_axes, axis_name, spmd_axis_name = self._rest
        return self._program.vmap(self._in_axes, out_axes, size, axis_name, spmd_axis_name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments.check_tree(self._program, args, kwargs)
        leaves, tree = jax.tree.flatten(args)
        dims = _prefix("in_axes", self._in_axes, tree)
        paths = [f"args{jax.tree_util.keystr(p)}" for p, _ in jax.tree.leaves_with_path(args)]
        batched = [(p, x, d) for p, x, d in zip(paths, leaves, dims, strict=True) if d is not None]
        batched += [
            (f"kwargs{jax.tree_util.keystr(p)}", x, 0) for p, x in jax.tree.leaves_with_path(kwargs)
        ]
        sizes = [self._size(*leaf) for leaf in batched]
        if len(set(sizes)) != 1:
            found = ", ".join(
                f"{path} has {size} along axis {d}"
                for (path, _, d), size in zip(batched, sizes, strict=True)
            )
            raise ArgumentError(
                f"vmap of @{self._program.name}: expected batched arguments of one size, got "
                f"{found or 'none that is batched'}"
            )
        return self._of_size(sizes[0])(*args, **kwargs)

    def _size(self, path: str, value: Any, axis: int) -> int:
        aval = core.typeof(value)
        if not -len(aval.shape) <= axis < len(aval.shape):
            raise ArgumentError(
                f"vmap of @{self._program.name}: {path} has no axis {axis} to be batched along, it "
                f"is {aval.str_short(short_dtypes=True)}"
            )
        return aval.shape[axis]

    def __getattr__(self, name: str) -> Any:
        raise ArgumentError(
            f"vmap of @{self._program.name} has no {name} before its size is known; give axis_size"
        )


@collector_paused
def inverse(
    program: Program,
    argnums: int | Sequence[int] | None,
    known: int | Sequence[int] | None,
    *,
    log_det: bool,
) -> Program:
    """The program ``(result, *known arguments) -> unknown arguments``, with log|det| on request.

    Raises:
      ArgumentError: ``argnums`` and ``known`` overlap or name no argument.
      TransformError: an argument does not follow from the result and the known arguments.
    """
    # The rules of inversion are many, and most programs are never inverted.
    from jaxmlir.passes.inverse import inverse as inverse_function

    args_tree = _args_tree(program, "inverse")
    children = args_tree.children()
    given = [] if known is None else _positions(known, args_tree, "known")
    if argnums is None:
        found = [i for i in range(len(children)) if i not in given]
    else:
        found = _positions(argnums, args_tree)
        if known is None:
            given = [i for i in range(len(children)) if i not in found]
    if set(found) & set(given):
        raise ArgumentError(
            f"inverse of @{program.name}: argnums={argnums} and known={known} overlap"
        )
    result, rules, symbol = _start(program, custom_rules="all")
    with scope(), program.widths:
        flat = (_leaves_of(args_tree, positions) for positions in (found, sorted(given)))
        try:
            new = inverse_function(rules, symbol, *map(tuple, flat), log_det)
        except TransformError as e:
            if len(found) > 1 and not given:
                e.add_note(
                    f"all {len(found)} arguments of @{program.name} are to be found; argnums= or "
                    "known= says which are given"
                )
            raise
    known_trees = [children[i] for i in sorted(given)]
    single = len(found) == 1 and not isinstance(argnums, Iterable)
    tree = children[found[0]] if single else _tuple([children[i] for i in found])
    if log_det:
        tree = _tuple([tree, jax.tree.structure(0)])
    in_tree = _arguments(program.out_tree, *known_trees)
    return _finish(result, new, in_tree, tree, f"{symbol}.inverse")


def _is_none(value: Any) -> bool:
    return value is None


def _start(
    program: Program,
    while_loops: str = "error",
    checkpoints: int | None = None,
    custom_rules: Literal["all", "met", "none"] = "met",
    *,
    reverse: bool = False,
    lends: bool = False,
) -> tuple[Program, Rules, str]:
    """A copy to transform, its rules, and the function to transform.

    Args:
      custom_rules: which are traced now: all, or those that a derivative needs; others are only if
        somebody asks for them after :func:`_finish`.
      reverse: what is linearized is to be transposed.
      lends: the library may have functions for it, which are copied in before :func:`_finish`.
    """
    volumes: dict[str, Volume] = {}
    if lends and while_loops == "error":
        volumes = volumes_for(program, reverse=reverse, traced_rules=custom_rules == "met")
    if custom_rules == "met" and program.has_untraced_rules:
        met = reachable(_without(program, volumes), program.name, custom_rules=False)
        program.trace_rules(within=met)
    # Rules may have brought functions.
    among = reachable(_without(program, volumes), program.name) if volumes else None
    result = program.clone(hold_rules=custom_rules != "all", among=among)
    if makes_references(result):
        if volumes:
            raise NotLent
        discharge_refs(result)

    def prepare(symbol: str) -> None:
        checkpoint_while(result, symbol, while_loops, checkpoints)

    prepare(result.name)
    with scope():
        rules = Rules(result, reverse=reverse, prepare=prepare)
        if volumes:
            rules.functions.loans = Loans(rules, volumes)
        return result, rules, result.name


def _without(program: Program, volumes: Mapping[str, Volume]) -> dict[str, func.FuncOp]:
    """The functions of a program but for those that the library has."""
    return {name: op for name, op in program._functions.items() if name not in volumes}


def _finish(
    program: Program,
    symbol: str,
    in_tree: Any,
    out_tree: Any,
    name: str | None = None,
    names: Sequence[str] = (),
    copies: Mapping[str, Copy] | None = None,
) -> Program:
    """Makes ``@symbol`` the program's function, under ``name`` where that is free.

    Args:
      names: of the flat arguments, if these have any.
      copies: what is known of some functions of the module.
    """
    with scope():
        program.changed()
        copies = copies or {}
        make_public(program, symbol, {name: copy.uses for name, copy in copies.items()})
        copies = {name: copy for name, copy in copies.items() if name in program.functions}
        # Rules are run on exported functions, and their copies come back.
        dedupe_functions(program, copies)
        uses = {name: copy.uses for name, copy in copies.items()}
        program.changed(put_in_order(program.functions, symbol, uses))
        _shorten_names(program, copies)
        function = program.function(symbol)
        if name is not None and name not in program.functions:
            rename_functions(program, {function.name.value: name}, copies)
        attributes = function.attributes
        attributes["jaxpr.in_tree"] = pytrees.encode(in_tree)
        attributes["jaxpr.out_tree"] = pytrees.encode(out_tree)
        locations.name_arguments(function, names)
    program.changed(program._functions)
    program.rule_tracing.held = False
    program.copies = copies
    return program


def _shorten_names(program: Program, copies: dict[str, Copy]) -> None:
    """Takes the numbers off the names of private functions, where the names are free."""
    taken = set(program.functions)
    names = {}
    for name, function in program.functions.items():
        base = short_name(name)
        if base not in taken and is_private(function):
            taken.add(base)
            names[name] = base
    rename_functions(program, names, copies)


def _args_tree(program: Program, what: str) -> Any:
    args, kwargs = program.in_tree.children()
    if kwargs.num_leaves:
        raise ArgumentError(
            f"{what}: @{program.name} takes keyword arguments; pass them by position"
        )
    return args


def _tuple(trees: Sequence[Any]) -> Any:
    return jax.tree_util.treedef_tuple(trees)


def _arguments(*trees: Any) -> Any:
    """The tree of ``(args, kwargs)`` for positional arguments of those trees."""
    return _tuple([_tuple(trees), jax.tree.structure({})])


def _positions(argnums: int | Sequence[int], args_tree: Any, option: str = "argnums") -> list[int]:
    """The positional arguments that an option names, counted from 0.

    Raises:
      ArgumentError: it names one that there is not, or one twice.
    """
    n = len(args_tree.children())
    wanted = list(argnums) if isinstance(argnums, Iterable) else [argnums]
    for i in wanted:
        if not hasattr(i, "__index__"):
            raise ArgumentError(f"{option}={argnums!r}: expected an int, or a sequence of ints")
        if not -n <= i < n:
            taken = count(n, "positional argument")
            raise ArgumentError(f"{option}={argnums} for a program of {taken}")
    positions = [i % n for i in wanted]
    if len(set(positions)) < len(positions):
        raise ArgumentError(f"{option}={argnums} names a positional argument twice")
    return positions


def _to_differentiate(argnums: int | Sequence[int], args_tree: Any) -> list[int]:
    """Those of :func:`_positions`, of which there has to be one."""
    positions = _positions(argnums, args_tree)
    if not positions:
        raise ArgumentError(f"argnums={argnums}: expected at least one argument to differentiate")
    return positions


def _leaves_of(args_tree: Any, positions: Sequence[int]) -> list[int]:
    """The flat arguments of those positions, in their order."""
    starts, total = [], 0
    for child in args_tree.children():
        starts.append(total)
        total += child.num_leaves
    children = args_tree.children()
    return [
        leaf for i in positions for leaf in range(starts[i], starts[i] + children[i].num_leaves)
    ]


def _check_dtypes(
    program: Program, chosen: Sequence[int], allow_int: bool, holomorphic: bool
) -> None:
    """The conditions of ``jax.grad`` on argument and result dtypes."""
    import jax.numpy as jnp

    kind = jnp.complexfloating if holomorphic else jnp.inexact
    first_of: dict[Any, int] = {}
    for i in chosen:
        first_of.setdefault(program.in_avals[i].dtype, i)
    for dtype, i in first_of.items():
        if not jax.dtypes.issubdtype(dtype, kind) and not (allow_int and not holomorphic):
            raise TransformError(
                f"grad of @{program.name}: argument {arguments.name(program, i)} must have a "
                f"dtype under {kind.__name__}, got {dtype}"
                + ("" if holomorphic else "; allow_int=True gives integers a gradient of float0")
            )
    dtype = program.out_avals[0].dtype if program.out_avals else None
    wanted = jnp.complexfloating if holomorphic else jnp.floating
    if dtype is None or not jax.dtypes.issubdtype(dtype, wanted):
        raise TransformError(
            f"grad of @{program.name}: the result must have a dtype under {wanted.__name__}, "
            f"got {dtype}"
        )


def _prefix(what: str, axes: Any, tree: Any) -> list[int | None]:
    """A pytree prefix of axes as one axis per leaf.  ``None`` is an axis, no leaf of ``tree``."""
    if isinstance(axes, list):
        axes = tuple(axes)
    flat: list[int | None] = []
    subtrees = jax.tree.unflatten(tree, [0] * tree.num_leaves)
    try:
        jax.tree.map(
            lambda axis, subtree: flat.extend([axis] * len(jax.tree.leaves(subtree))),
            axes,
            subtrees,
            is_leaf=_is_none,
        )
    except ValueError as e:
        raise ArgumentError(f"{what}={axes} is no prefix of the pytree {tree}: {e}") from None
    return flat


def _flat_axes(what: str, axes: Any, tree: Any, avals: Sequence[Any]) -> list[int | None]:
    """A pytree prefix of axes as one axis per leaf, negative ones counted from the end."""
    flat = _prefix(what, axes, tree)
    result = []
    for i, (axis, aval) in enumerate(zip(flat, avals, strict=False)):
        if not (axis is None or hasattr(axis, "__index__")):
            raise ArgumentError(
                f"{what}: the axis of leaf {i} must be an int or None, got {axis!r}"
            )
        ndim = len(aval.shape) + 1
        if axis is not None and not -ndim <= axis < ndim:
            raise ArgumentError(f"{what}: axis {axis} of leaf {i} is out of range for {ndim} dims")
        result.append(axis if axis is None or axis >= 0 else axis + ndim)
    return result


__all__ = ["grad", "inverse", "jacobian", "jvp", "linearize", "vjp", "vmap"]
