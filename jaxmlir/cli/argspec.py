"""Arguments written on a command line: ``f32[8,128], float, {"w": bf16[3]}, (1, "mode")``.

=====================  ====================================================================
``f32[8,128]``         an array; the dtype as JAX abbreviates it, ``f32[]`` a scalar
``key<fry>[4]``        an array of PRNG keys
``f32[b,2*b]``         symbolic dimensions, shared by all arguments
``float``, ``int``     a Python scalar: its dtype is weak (``bool`` and ``complex`` too)
``1``, ``"x"``, None   a literal; ``nan``, ``inf``, ``true`` and ``false`` are some, too
``(..)``, ``[..]``     pytrees of these, and ``{"name": ..}``
=====================  ====================================================================
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

from jaxmlir.cli.command_line import MAX_INTEGER, UsageError
from jaxmlir.support.masks import chosen, filled, inverted

DTYPES = {
    "bool": "bool",
    "pred": "bool",
    **{f"i{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"s{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"f{n}": f"float{n}" for n in (16, 32, 64)},
    "bf16": "bfloat16",
    "c64": "complex64",
    "c128": "complex128",
}
_NAMED_LITERALS = {"nan": math.nan, "inf": math.inf, "true": True, "false": False}
_PYTHON_SCALARS = {"bool": False, "int": 0, "float": 0.0, "complex": 0j}
_SHORT_FLOAT = re.compile(r"^f(\d+)_")
# JAX's notation of types that is not Python; and strings, which contain no types.
_OF_JAX = re.compile(
    r"""
    (?P<string> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
    | \bkey<(?P<key>\w+)>
    | (?<=[\w>])\[\s*\]
    """,
    re.VERBOSE,
)


def parse_positional(text: str) -> tuple[Any, ...]:
    """The values of a comma-separated list of the form above; arrays are
    ``jax.ShapeDtypeStruct``s."""
    listed = text.strip().removesuffix(",")
    tree = _parse(f"({listed},)" if listed else "()", text)
    return _ArgspecParser(text).value(tree)


def parse_keywords(text: str) -> dict[str, Any]:
    """The values of ``name=value, ...``; a usage error for other texts."""
    tree = _parse(f"dict({text})", text)
    is_call = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    if not is_call or tree.args or any(keyword.arg is None for keyword in tree.keywords):
        raise UsageError(f"expected name=value, ..., got '{text}'")
    names = [str(keyword.arg) for keyword in tree.keywords]
    if len(set(names)) < len(names):
        raise UsageError(f"a name is given twice in '{text}'")
    reader = _ArgspecParser(text)
    return {name: reader.value(k.value) for name, k in zip(names, tree.keywords, strict=True)}


def is_abstract(value: Any) -> bool:
    """Whether a leaf of a value stands for an array; otherwise the value is a literal."""
    import jax

    return any(
        isinstance(leaf, (jax.ShapeDtypeStruct, _PythonScalar))
        for leaf in jax.tree_util.tree_leaves(value)
    )


class _PythonScalar:
    """Marks an argument that is passed as a Python scalar while tracing."""

    def __init__(self, value: Any):
        self.value = value


def concrete_scalars(value: Any) -> Any:
    """The value with each ``float``, ``int`` ... replaced by a Python scalar of that type."""
    import jax

    return jax.tree_util.tree_map(
        lambda leaf: leaf.value if isinstance(leaf, _PythonScalar) else leaf, value
    )


def _parse(source: str, shown: str) -> ast.expr:
    try:
        return ast.parse(_OF_JAX.sub(_as_python, source), mode="eval").body
    except SyntaxError as e:
        raise UsageError(f"cannot read the arguments '{shown}': {e.msg}") from None
    except (RecursionError, MemoryError):
        raise UsageError(f"cannot read the arguments '{shown}': nested too deep") from None


def _as_python(match: re.Match[str]) -> str:
    if match["string"]:
        return match["string"]
    return f"key_{match['key']}" if match["key"] else "[()]"


class _ArgspecParser:
    """Turns Python syntax into values; symbolic dimensions of one parser share their scope."""

    def __init__(self, text: str):
        self.text = text
        self.scope: Any = None

    def error(self, node: ast.expr, why: str) -> UsageError:
        shown = re.sub(r"\bkey_(\w+)(?=\[)", r"key<\1>", ast.unparse(node)).replace("[()]", "[]")
        return UsageError(
            f"cannot read '{shown}' in the arguments '{self.text}': {why}; write "
            'arrays as f32[8,128], Python scalars as float, and literals as 3 or "name"'
        )

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Tuple(elts=items):
                return tuple(map(self.value, items))
            case ast.List(elts=items):
                return list(map(self.value, items))
            case ast.Dict(keys=keys, values=values) if None not in keys:
                keys = self.keys(node, keys)
                return {k: self.value(v) for k, v in zip(keys, values, strict=True)}
            case ast.Subscript(value=ast.Name(id=dtype), slice=shape):
                return self.array(node, dtype, shape)
            case ast.Name(id=name) if name in _PYTHON_SCALARS:
                return _PythonScalar(_PYTHON_SCALARS[name])
            case ast.Name(id=name) if name in _NAMED_LITERALS:
                return _NAMED_LITERALS[name]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf" | "nan" as name)):
                return -_NAMED_LITERALS[name]
        return self.literal(node)

    def literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except (TypeError, ValueError):
            raise self.error(node, "it is neither an array nor a literal") from None

    def keys(self, node: ast.expr, keys: list[ast.expr]) -> list[Any]:
        """The keys of a dictionary, which have to be sortable for it to be a pytree."""
        literals = list(map(self.key, keys))
        try:
            sorted(literals)
        except TypeError:
            raise self.error(node, "its keys cannot be sorted") from None
        return literals

    def key(self, node: ast.expr) -> Any:
        """A key of a dictionary."""
        literal = self.literal(node)
        try:
            hash(literal)
        except TypeError:
            raise self.error(node, "it cannot be a key of a dictionary") from None
        return literal

    def array(self, node: ast.expr, dtype: str, shape: ast.expr) -> Any:
        import jax

        dims = shape.elts if isinstance(shape, ast.Tuple) else [shape]
        for dim in itertools.chain.from_iterable(map(ast.walk, dims)):
            # True is an integer to Python, and a name to JAX's parser of symbolic shapes.
            if isinstance(dim, ast.Constant) and isinstance(dim.value, bool | None):
                raise self.error(node, f"{dim.value} is not a size")
        sizes = self.shape(node, dims)
        if any(type(size) is int and not 0 <= size <= MAX_INTEGER for size in sizes):
            raise self.error(node, f"expected sizes from 0 to {MAX_INTEGER}")
        return jax.ShapeDtypeStruct(sizes, self.dtype(node, dtype))

    def dtype(self, node: ast.expr, name: str) -> Any:
        import jax
        import jax.numpy as jnp

        if name.startswith("key_"):
            try:
                return jax.random.key(0, impl=_key_impl(name.removeprefix("key_"))).dtype
            except ValueError as e:
                raise self.error(node, str(e)) from None
        full = DTYPES.get(name) or _SHORT_FLOAT.sub(r"float\1_", name)
        # NumPy's names are not used: its "f8" has 64 bits, and any class is a dtype of objects.
        candidate = getattr(jnp, full, None)
        try:
            is_dtype = candidate and any(
                jnp.issubdtype(candidate, k) for k in (jnp.number, jnp.bool)
            )
        except TypeError:
            is_dtype = False
        if not is_dtype:
            raise self.error(node, f"'{name}' is not a dtype")
        dtype = jnp.dtype(candidate)
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise self.error(
                node, "without JAX_ENABLE_X64=1 in the environment, JAX narrows this dtype"
            )
        return dtype

    def shape(self, node: ast.expr, dims: list[ast.expr]) -> tuple[Any, ...]:
        if all(isinstance(d, ast.Constant) and isinstance(d.value, int) for d in dims):
            return tuple(d.value for d in dims)  # type: ignore[attr-defined]
        from jax import export

        self.scope = self.scope or export.SymbolicScope()
        text = ", ".join(map(ast.unparse, dims))
        try:
            return export.symbolic_shape(text, scope=self.scope)
        except ValueError as e:
            raise self.error(node, str(e)) from None


def _key_impl(tag: str) -> str:
    """JAX's name of the key type that it prints as ``key<tag>``."""
    names = {"fry": "threefry2x32", "rbg": "rbg", "urbg": "unsafe_rbg"}
    return names.get(tag, tag)


def split_static(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Binds the literal arguments into the function, as static ones; the abstract ones stay.  An
    argument is static if none of its leaves stands for an array."""
    dynamic = list(map(is_abstract, args))
    static_kwargs = {k: v for k, v in kwargs.items() if not is_abstract(v)}
    dynamic_kwargs = {k: concrete_scalars(v) for k, v in kwargs.items() if is_abstract(v)}

    @functools.wraps(f)
    def with_static(*values: Any, **keywords: Any) -> Any:
        return f(*filled(values, dynamic, args), **static_kwargs, **keywords)

    if all(dynamic) and not static_kwargs:
        with_static = f
    else:
        # JAX names the arguments by the signature.
        with contextlib.suppress(ValueError):
            parameters = inspect.signature(f).parameters.values()
            static = {*itertools.compress(parameters, inverted(dynamic))}
            with_static.__signature__ = inspect.Signature(
                [p for p in parameters if p not in static and p.name not in static_kwargs]
            )
    return with_static, tuple(map(concrete_scalars, chosen(args, dynamic))), dynamic_kwargs
