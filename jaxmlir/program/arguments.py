"""The arguments of a program: checks of their pytree, shapes and dtypes against its signature."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmlir._compat import core
from jaxmlir.dialect.codec import pytrees
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import constraints_of, is_narrowed, widths_of
from jaxmlir.errors import ArgumentError, count, nearest
from jaxmlir.program import specialize as specialization

# Messages show two pytrees in full up to this number of characters, and otherwise name at most this
# number of differences.
MAX_TREE_TEXT = 300
MAX_DIFFERENCES = 5


def flatten(program: Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments of a call, flattened and converted to the program's types; an
    :class:`ArgumentError` if they have another pytree, shape or dtype."""
    flat = check_tree(program, args, kwargs)
    columns = zip(flat, program.in_avals, strict=True)
    return [_convert(program, value, aval, i) for i, (value, aval) in enumerate(columns)]


def check_tree(program: Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The leaves of arguments, after a check that their pytree is the program's."""
    flat, tree = jax.tree.flatten((args, kwargs))
    if tree != program.in_tree:
        raise ArgumentError(_tree_difference(program, tree, flat))
    return flat


def concrete_shapes(program: Module, flat: Sequence[Any]) -> list[tuple[int, ...]]:
    """The shapes of flat arguments, after a check that the program's constant dimensions agree."""
    shapes = [np.shape(value) for value in flat]
    for i, (aval, shape) in enumerate(zip(program.in_avals, shapes, strict=True)):
        dims = getattr(aval, "shape", ())
        fits = len(dims) == len(shape) and all(
            size == dim or not core.is_constant_dim(dim)
            for size, dim in zip(shape, dims, strict=True)
        )
        if not fits:
            raise ArgumentError(
                f"@{program.name}: argument {program.name_of_argument(i)} must be "
                f"{aval.str_short(short_dtypes=True)}, got the shape [{', '.join(map(str, shape))}]"
            )
    return shapes


def abstract(program: Module) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Abstract positional and keyword arguments, of the types that a program takes."""
    return jax.tree.unflatten(program.in_tree, map(_abstract, program.in_avals))


def _abstract(aval: Any) -> Any:
    if isinstance(aval, core.ShapedArray):
        sharding = None if aval.sharding.mesh.empty else aval.sharding
        return jax.ShapeDtypeStruct(
            aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type
        )
    return aval


def refines(value: Any, aval: Any) -> bool:
    """Whether the program's shape for an argument is symbolic, and the argument has another one."""
    return specialization.is_symbolic(aval) and np.shape(value) != aval.shape


def called(program: Module, function: Callable[..., Any], as_name: str) -> Callable[..., Any]:
    """``function`` under the name ``as_name``, with the signature of the program's function: JAX
    names the module that it compiles, and its arguments, by these."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = as_name
    signature = signature_of(program)
    if signature is not None:
        call.__signature__ = signature
    return call


_ROOT = r"[^\W\d]\w*"


def signature_of(program: Module) -> inspect.Signature | None:
    """The signature of the function that a program was traced from, from its arguments' names."""
    args, kwargs = pytrees.of_placeholders(program.in_tree, program.in_avals)
    parameters: list[inspect.Parameter] = []
    names = iter(program.arg_names)
    for arg in args:
        paths = jax.tree_util.tree_leaves_with_path(arg)
        leaves = [(path, next(names)) for path, _ in paths]
        root = re.match(_ROOT, leaves[0][1]) if leaves else None
        if root is None:
            return None
        # If a name has an index beyond the path in the argument, as `rest[1]`, it is from `*rest`.
        whole = leaves[0][1] == root[0] + jax.tree_util.keystr(leaves[0][0])
        kind = (
            inspect.Parameter.POSITIONAL_OR_KEYWORD if whole else inspect.Parameter.VAR_POSITIONAL
        )
        if whole or not parameters or parameters[-1].name != root[0]:
            parameters.append(inspect.Parameter(root[0], kind))
    if not all(isinstance(name, str) and name.isidentifier() for name in kwargs):
        return None
    try:
        parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in kwargs]
        return inspect.Signature(parameters)
    except ValueError:
        return None


def _convert(program: Module, value: Any, aval: Any, index: int) -> Any:
    """A flat argument, checked and converted to the aval that the program was traced for."""
    try:
        have = core.typeof(value)
    except TypeError:
        raise ArgumentError(
            f"@{program.name}: argument {program.name_of_argument(index)} must be "
            f"{aval.str_short(short_dtypes=True)}, got {value!r}, which is not an array"
        ) from None
    if type(have) is type(aval) and not isinstance(aval, core.ShapedArray):
        return value
    if type(have) is not type(aval) or not _fits(have, aval):
        hint = "; jax_enable_x64 is off, so JAX narrows arrays" if is_narrowed(aval) else ""
        raise ArgumentError(
            f"@{program.name}: argument {program.name_of_argument(index)} must be "
            f"{aval.str_short(short_dtypes=True)}, got {have.str_short(short_dtypes=True)}{hint}"
        )
    if (have.dtype, have.weak_type) == (aval.dtype, aval.weak_type):
        return value
    with widths_of((aval,)):
        return jax.lax.convert_element_type_p.bind(
            value, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None
        )


def _fits(have: Any, aval: Any) -> bool:
    """Whether an array of a type may be given for an argument."""
    same_shape = have.shape == aval.shape or _alike(have.shape, aval.shape)
    return same_shape and (
        have.dtype == aval.dtype or (have.weak_type and _widens(have.dtype, aval))
    )


def as_array(value: Any) -> Any:
    """A number or numpy array as a JAX array."""
    is_host = isinstance(value, (np.ndarray, np.generic, bool, int, float, complex))
    return jax.numpy.asarray(value) if is_host and np.result_type(value).kind != "V" else value


def _alike(given: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether two shapes have the same text and the same constraints."""

    def text(dim: Any) -> Any:
        return dim if core.is_constant_dim(dim) else (str(dim), constraints_of(dim))

    return list(map(text, given)) == list(map(text, wanted))


def _widens(have: Any, aval: Any) -> bool:
    """Whether a Python scalar of dtype ``have`` may be given for an argument, e.g. 1 for a float.
    A float may not be given for a 64-bit one without ``jax_enable_x64``: JAX has rounded it to 32
    bits."""
    if is_narrowed(aval) and not jax.dtypes.issubdtype(have, jax.numpy.integer):
        return False
    order = [jax.numpy.integer, jax.numpy.floating, jax.numpy.complexfloating]

    def rank(dtype: Any) -> int:
        return next((i for i, k in enumerate(order) if jax.dtypes.issubdtype(dtype, k)), -1)

    return 0 <= rank(have) <= rank(aval.dtype)


def _tree_difference(program: Module, tree: Any, flat: Sequence[Any]) -> str:
    """An error message about the pytree of arguments: both pytrees in full or, if these are long,
    their differences."""
    wanted, given = _tree_text(program.in_tree, program.in_avals), _tree_text(tree, flat)
    if len(wanted) + len(given) <= MAX_TREE_TEXT:
        said = f"@{program.name} takes arguments of the pytree {wanted}, got {given}"
        return said + _keyword_hint(program, tree) + _class_hint(program, tree)
    differences = list(_differences(program.in_tree, tree))
    shown = [
        f"{_path_text(program, path)} must be {_node_text(expected)}, got {_node_text(got)}"
        for path, expected, got in differences[:MAX_DIFFERENCES]
    ]
    if len(differences) > len(shown):
        shown.append(f"... {len(differences) - len(shown)} more")
    return f"@{program.name}: " + "; ".join(shown) + _class_hint(program, tree)


def _keywords(tree: Any) -> list[str]:
    """The names of the keyword arguments in the pytree of arguments."""
    data = tree.children()[1].node_data()
    return list(data[1]) if data else []


def _keyword_hint(program: Module, tree: Any) -> str:
    """What to do about keyword arguments that the program does not have."""
    wanted = _keywords(program.in_tree)
    unknown = [name for name in _keywords(tree) if name not in wanted]
    parameters = getattr(signature_of(program), "parameters", {})
    by_position = [name for name in unknown if name in parameters]
    if by_position:
        names = ", ".join(by_position)
        return f"; pass arguments by position that were traced by position: {names}"
    if not unknown:
        return ""
    meant = nearest(unknown[0], wanted)
    hint = f"did you mean {meant}?" if meant else "static arguments are not arguments of a program"
    return f"; it has no keyword argument {unknown[0]}; {hint}"


def _class_hint(program: Module, tree: Any) -> str:
    """What to do about an argument whose class only has the name of the program's."""
    for path, wanted, given in _differences(program.in_tree, tree):
        classes = [node.node_data()[0] for node in (wanted, given) if node.node_data()]
        if len(classes) == 2 and classes[0] is not classes[1]:
            name = classes[0].__name__
            if name == classes[1].__name__:
                return (
                    f"; {_path_text(program, path)} is of another class {name} than the program's, "
                    "of which jax.tree.unflatten(program.in_tree, leaves) makes instances"
                )
    return ""


def _differences(
    wanted: Any, given: Any, path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """The outermost nodes in which two trees differ, each after its path of keys or numbers."""
    if wanted == given:
        return
    kind, of_wanted, of_given = wanted.node_data(), wanted.children(), given.children()
    # Nodes with equal children differ in their own data.
    if kind != given.node_data() or len(of_wanted) != len(of_given) or of_wanted == of_given:
        yield path, wanted, given
        return
    keys = kind[1] if issubclass(kind[0], dict) else range(len(of_wanted))
    for key, *children in zip(keys, of_wanted, of_given, strict=True):
        yield from _differences(*children, (*path, key))


def _path_text(program: Module, path: Sequence[Any]) -> str:
    """A part of the arguments in words, by the parameter name of the user's function if known."""
    if len(path) < 2:
        return "the keyword arguments" if path == (1,) else "the positional arguments"
    side, first, *rest = path
    signature = signature_of(program) if side == 0 else None
    if signature is not None:
        parameters = list(signature.parameters.values())[: first + 1]
        if parameters[-1].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            first = parameters[-1].name
    return f"argument {first}" + "".join(f"[{key!r}]" for key in rest)


def _node_text(tree: Any) -> str:
    """A node of a pytree in words, without its children."""
    if tree.node_data() is None:
        return "an array"
    kind, data = tree.node_data()
    if kind is type(None):
        return "None"
    if issubclass(kind, dict):
        keys = f"with the keys {', '.join(map(repr, data))}" if data else "without keys"
        return f"a {kind.__name__} {keys}"
    text = f"a {kind.__name__} of {count(len(tree.children()), 'element')}"
    return text if kind in (tuple, list) else f"{text} and {data!r}"


def structure(tree: Any) -> str:
    """A pytree as Python text, with ``*`` for leaves: ``(*, {'w': *})``."""
    return str(tree).removeprefix("PyTreeDef(").removesuffix(")")


def _tree_text(tree: Any, avals: Sequence[Any]) -> str:
    args, kwargs = pytrees.of_placeholders(tree, avals)
    parts = [*map(str, args), *(f"{k}={v}" for k, v in kwargs.items())]
    return starred(f"({', '.join(parts)})")


def starred(placeholders: Any) -> str:
    """The text of a pytree of placeholders, with ``*`` for each of these."""
    return re.sub(r"<object object at \w+>", "*", str(placeholders))


# --- calls ----------------------------------------------------------------------------------------


class CodeLocation(NamedTuple):
    """The source position of a function, in the attributes of Python's code objects."""

    co_filename: str
    co_firstlineno: int


class InstanceProperty(property):
    """A property of instances only: ``inspect`` must not find it as the class's own signature."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            raise AttributeError
        return super().__get__(instance, owner)


class CallProperty(property):
    """A ``__call__`` that is the value of another attribute, which Python calls directly.  A Python
    frame in between would add a tenth to the cost of dispatching a compiled function."""

    def __init__(self, attribute: str, doc: str | None = None):
        super().__init__(operator.attrgetter(attribute))
        self.__doc__ = doc

    def __call__(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Calls it as an unbound method, ``Class.__call__(instance, ...)``."""
        return self.__get__(instance)(*args, **kwargs)


SHOWN = 10
"""How many arguments, and how many results, the ``repr`` of a program shows."""


def short_types(avals: Sequence[Any]) -> str:
    """Types in JAX's abbreviations; only the first ones if there are many."""
    shown = avals if len(avals) <= SHOWN else avals[: SHOWN - 1]
    names = [aval.str_short(short_dtypes=True) for aval in shown]
    rest = len(avals) - len(shown)
    return ", ".join([*names, f"... {rest} more"] if rest else names)
