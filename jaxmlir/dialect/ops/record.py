"""Facts about ops that the dialect needs and JAX does not provide: one frozen record per op.

A record gives the op's meaning in one line, the numbers of its operands and results, and its
attributes: JAX's params under JAX's own names. The Python OpViews, ``jaxpr.irdl.mlir`` for stock
MLIR, the op reference ``docs/ops.md``, and the structural half of the verifier are made from the
records. Types are not described here: JAX's abstract evaluation of the primitive *is* their rule.

Rows are written with :func:`op`, :func:`unary`, :func:`binary`, :func:`variadic` and :func:`call`.
Attributes are written like parameters of Python functions (see :func:`attr`), in one string or
several::

    unary("cumsum", "Cumulative sum along an axis.", "axis: int, reverse: bool = false",
          linear=(0,), inverse="first differences along the axis")

Nothing here imports JAX: the table loads in a few milliseconds.
"""

from __future__ import annotations

import enum
import functools
import re
from types import EllipsisType
from typing import Any, NamedTuple


class _Required:
    """The default of an attribute that must be given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()

OURS = "<0"
"""The JAX versions of an op that no JAX has because it is the dialect's own."""


class Attr(NamedTuple):
    """One attribute of an op, that is, one param of a JAX primitive.

    ``kind`` is the kind of Python value that the attribute holds; a trailing ``?`` allows ``None``:

    ============================ ==================================================================
    bool int float str dtype     a scalar of that type
    pair                         two integers
    bools ints strs pairs        a tuple of them
    dimension dimensions         one of the first operand's, a tuple of different ones
    function functions           a symbol that names a ``func.func`` (a sub-jaxpr), a tuple of them
    type types                   an abstract value as an MLIR type, a tuple of them
    enum E                       a member of JAX's enumeration ``E``
    record R                     a dataclass or named tuple ``R``, written as a dictionary
    primitive                    a JAX primitive, written by its name
    axes                         names of mesh axes: a string, or a tuple of strings and integers
    tree                         a pytree structure
    sharding spec mesh layout    placement of one value
    handle                       a Python object that cannot be written down (a callback)
    policy                       what ``jax.checkpoint`` may save
    platforms                    a tuple of tuples of names, or of ``None`` for all others
    A or B                       one of two kinds
    any                          any value that the codec can write
    ============================ ==================================================================
    """

    name: str
    kind: str
    default: Any = REQUIRED
    """The value of an absent attribute; an attribute equal to it is not printed."""
    jax: str = ""
    """The JAX versions whose primitive has the param: ``">=0.12"``; ``""`` is all."""
    optional: bool = False
    """Whether JAX may leave the param out: then an absent attribute stands for no param, rather
    than for one with the default."""
    each: str = ""
    """``"operands"`` or ``"results"``, ``"dimensions"`` of the first operand, or its ``"spatial
    dimensions"``, all but two: the value is a tuple with one entry, of ``kind``, for each of them,
    and may be absent when every entry is ``default``."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Pairs (JAX versions, the param's name there), if JAX renamed the param."""

    @property
    def form(self) -> str:
        """The kind as messages show it, e.g. ``each operand's int`` for one entry per operand."""
        return f"each {self.each.removesuffix('s')}'s {self.kind}" if self.each else self.kind

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def mandatory(self) -> bool:
        """Whether every well-formed op carries the attribute, whichever JAX wrote it."""
        return self.required and not self.jax


_SPELLINGS = {
    "bool": "true",
    "bools": "array<i1: true, false>",
    "dimension": "0 : i64",
    "dimensions": "array<i64: 0, 1>",
    "dtype": "f32",
    "function": "@f",
    "functions": "[@f, @g]",
    "int": "2 : i64",
    "ints": "array<i64: 2, 3>",
    "str": '"text"',
    "strs": '["a", "b"]',
    "type": "tensor<4xf32>",
}


def spelling(kind: str) -> str:
    """How the text of a program spells an attribute of a kind, after ``; such as``; empty for kinds
    of many forms."""
    word, _, name = kind.removesuffix("?").partition(" or ")[0].partition(" ")
    text = f'{{{name} = "NAME"}}' if word == "enum" else _SPELLINGS.get(kind.removesuffix("?"), "")
    return f"; such as {text}" if text else ""


class Trait(enum.Enum):
    """A property shared by ops of several kinds that passes query; the value is its meaning."""

    ADDITIVE = "The result is x + y or x - y."
    CALL = (
        "The results are those of one call of a function: the one that the op's first attribute of "
        "kind `function` names."
    )
    COMMUTATIVE = "The two operands may be exchanged without changing a bit of the result."
    CONTRACTION = "Each element of the result is a sum of products of elements of two operands."
    CUMULATIVE = "Each element of the result combines the elements up to it along an axis."
    CUSTOM_CALL = "The op runs code that is not part of XLA: it has to be allowed in a loaded file."
    ELEMENTWISE = (
        "Each element of the result is computed from the operands' elements at the same index; "
        "scalars and dimensions of size 1 are broadcast."
    )
    IMPURE = "The op depends on its place in the program, or others observe it: it is not moved."
    JOINING = "The result is the operands joined along an axis."
    MOVEMENT = "Each element of the results is an element of an operand, or a fill value."
    REDUCTION = "Elements are combined along `axes`, which disappear."
    RESHAPE = (
        "The result has the operand's elements in row-major order in another shape, unless an "
        "attribute `dimensions` permutes them first."
    )
    SLICING = "The result is a part of the first operand."
    SPLITTING = "The results are the parts of the operand along an axis."
    TRANSCENDENTAL = "An elementwise function that is computed by a series or a library call."
    UPDATE = "The result is the first operand, a part of it overwritten or combined with another."
    VIEW = "Dimensions are permuted, split, merged, dropped or new: no element need be moved."


class Op(NamedTuple):
    """One op of the dialect, ``jaxpr.<name>``."""

    name: str
    summary: str
    """The op's meaning in one line, with the equation."""
    operands: int | None
    """The number of operands; ``None`` for any number."""
    results: int | None
    notation: tuple[str | Attr, ...] = ()
    """The attributes in the notation of :func:`attr`, parsed on demand: a process needs few."""
    primitives: tuple[str, ...] = ()
    """JAX's names of the primitive, if they are not ``name``."""
    linear: tuple[int | EllipsisType, ...] | None = None
    """The operands in which the op is jointly linear: ``add`` (0, 1), ``concatenate`` (0, ...).
    ``mul`` is linear in each operand but not in both together, so it has none."""
    linear_each: tuple[int, ...] = ()
    """The operands in each of which the op is linear if the others are fixed, while it is not
    jointly linear in any two: ``mul`` (0, 1)."""
    inverse: str = ""
    """The inverse in words: an op, or expressions in the result (z of x and y, y of x alone); the
    rule itself is in ``jaxmlir/transforms/inverses``. Or why there is none: a text that begins
    with ``"not invertible: "`` if operands are lost, else ``"no rule: "``."""
    domain: str = ""
    """The operands for which the inverse holds, if not for all."""
    traits: tuple[Trait, ...] = ()
    combine: str = ""
    """The op that combines two elements in a reduction or similar op: ``add`` for ``reduce_sum``,
    ``cumsum`` and ``scatter_add``."""
    indices: tuple[int | EllipsisType, ...] = ()
    """The operands with indices to read or write at, in the notation of ``linear``."""
    update: int | None = None
    """The operand that is written into the first one, or combined with it."""
    distinct: str = ""
    """Why two of the op with equal operands must not be merged, if so."""
    folds: tuple[str, ...] = ()
    """Equations, left to right, by which ``jaxpr-canonicalize`` simplifies the op; their notation
    is in :mod:`jaxmlir.optimize.simplify.canonicalize.equations`."""
    jax: str = ""
    """The JAX versions that have the primitive; ``""`` is all."""
    bodies: str = "opaque"
    """How JAX's lowering rule uses sub-jaxprs: ``"opaque"`` when it only evaluates or calls them,
    ``"inspected"`` when it looks into their equations or emits them into a region."""

    @property
    def attributes(self) -> tuple[Attr, ...]:
        return _attributes(self.notation)

    @property
    def has_inverse(self) -> bool:
        """Whether there is a rule that inverts the op."""
        reasons = ("not invertible: ", "no rule: ")
        return bool(self.inverse) and not self.inverse.startswith(reasons)

    @property
    def primitive_names(self) -> tuple[str, ...]:
        return self.primitives or (self.name,)

    def params(self, jax: tuple[int, ...]) -> dict[str, Attr]:
        """The attributes that a JAX version has as params, by the param's name there."""
        names = {}
        for attribute in self.attributes:
            if holds(attribute.jax, jax):
                jax_names = (name for where, name in attribute.renamed if holds(where, jax))
                names[next(jax_names, attribute.name)] = attribute
        return names

    @property
    def functions(self) -> tuple[Attr, ...]:
        """The attributes that refer to functions."""
        kinds = ("function", "functions", "lists of functions")
        return tuple(a for a in self.attributes if a.kind.rstrip("?") in kinds)

    def attribute(self, name: str) -> Attr | None:
        return next((a for a in self.attributes if a.name == name), None)

    def linear_operands(self, count: int) -> tuple[int, ...]:
        """The operands of an instance with ``count`` operands in which it is jointly linear."""
        return operands_in(self.linear or (), count)

    def index_operands(self, count: int) -> tuple[int, ...]:
        """The operands of an instance with ``count`` operands that are indices."""
        return operands_in(self.indices, count)


class Family(NamedTuple):
    """Ops of one kind, which form a section of the reference.

    Attributes:
      name: one or two words, as an identifier.
      meaning: what the ops have in common, as Markdown.
    """

    name: str
    meaning: str
    ops: tuple[Op, ...]


def group(*records: Op, traits: tuple[Trait, ...] = (), **common: Any) -> tuple[Op, ...]:
    """Records that share some traits, besides their own, and some fields that they leave empty."""
    return tuple(
        r._replace(
            traits=(*traits, *r.traits),
            **{name: getattr(r, name) or value for name, value in common.items()},
        )
        for r in records
    )


def family(name: str, meaning: str, *records: Op, **common: Any) -> Family:
    """A family of ops, whose common facts are given as for :func:`group`."""
    return Family(name, meaning.strip(), group(*records, **common))


def operands_in(notation: tuple[int | EllipsisType, ...], count: int) -> tuple[int, ...]:
    """The operands that a notation as in ``Op.linear`` means for an op with ``count`` operands."""
    match notation:
        case (*first, last, EllipsisType()):
            return (*first, *range(last, count))
        case numbers:
            return numbers


def holds(versions: str, jax: tuple[int, ...]) -> bool:
    """Whether ``versions`` (``">=0.12"``, ``"<0.11"``; ``""``: all) contains ``jax``, say
    ``(0, 12, 0)``."""
    if not versions:
        return True
    relation, _, bound = versions.rpartition("=") if "=" in versions else ("<", "", versions[1:])
    reached = jax >= tuple(map(int, bound.split(".")))
    return reached if relation == ">" else not reached


_ATTR = re.compile(
    r"(?P<name>\w+): (?:each (?P<each>[a-z ]+)'s )?(?P<kind>[^=@]+?)"
    r"(?: = (?P<default>[^@]+?))?(?: @ (?P<jax>\S+))?$"
)
_DEFAULTS = {"none": None, "absent": None, "true": True, "false": False, "()": ()}


@functools.cache
def attr(text: str, **renamed: str) -> Attr:
    """Reads ``"name: kind = default @ versions"``, the notation of the tables.

    The default and the versions may be left out. A kind that ends in ``?`` has the default
    ``none``, ``"name: kind? = required"`` has none at all, and ``"name: kind = absent"`` is of a
    param that JAX may leave out. A kind may begin with ``each operand's``, ``each result's``,
    ``each dimension's`` or ``each spatial dimension's``. Keywords give the names that JAX uses
    elsewhere: ``attr("call_jaxpr: function", jaxpr="<0.11")``.
    """
    match = _ATTR.match(text)
    if match is None:
        raise ValueError(
            f"malformed attribute {text!r}: expected 'name: kind = default @ versions'"
        )
    name, each, kind, default, jax = match.groups()
    if default is None:
        value = None if kind.endswith("?") else REQUIRED
    elif default == "required":
        value = REQUIRED
    elif default in _DEFAULTS:
        value = _DEFAULTS[default]
    else:
        value = default[1:-1] if default[0] == '"' else int(default)
    names = tuple((versions, jax_name) for jax_name, versions in renamed.items())
    each = each and f"{each}s"
    return Attr(name, kind, value, jax or "", default == "absent", each or "", names)


@functools.cache
def _attributes(notation: tuple[str | Attr, ...]) -> tuple[Attr, ...]:
    attributes: list[Attr] = []
    for item in notation:
        attributes += (
            [item] if isinstance(item, Attr) else map(attr, filter(None, item.split(", ")))
        )
    return tuple(attributes)


def op(
    name: str,
    operands: int | None,
    results: int | None,
    summary: str,
    *attributes: str | Attr,
    **fields: Any,
) -> Op:
    """A record; the attributes are in the notation of :func:`attr`."""
    return Op(name, summary, operands, results, attributes, **fields)


def unary(name: str, summary: str, *attributes: str | Attr, **fields: Any) -> Op:
    """An op with one operand and one result."""
    return op(name, 1, 1, summary, *attributes, **fields)


def binary(name: str, summary: str, *attributes: str | Attr, **fields: Any) -> Op:
    """An op with two operands and one result."""
    return op(name, 2, 1, summary, *attributes, **fields)


def variadic(name: str, summary: str, *attributes: str | Attr, **fields: Any) -> Op:
    """An op with any number of operands and results."""
    return op(name, None, None, summary, *attributes, **fields)


def call(
    name: str,
    summary: str,
    *attributes: str | Attr,
    inverse: str = "a call of the function's inverse",
    traits: tuple[Trait, ...] = (),
    **fields: Any,
) -> Op:
    """An op that calls one function and returns its results."""
    traits = (Trait.CALL, *traits)
    return variadic(name, summary, *attributes, inverse=inverse, traits=traits, **fields)
