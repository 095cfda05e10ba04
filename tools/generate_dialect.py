"""Generates the dialect's IRDL definition and its reference pages from the op table.

    python tools/generate_dialect.py            write jaxmlir/dialect/jaxpr.irdl.mlir, docs/ops.md
                                                and the rules in docs/inverse.md
    python tools/generate_dialect.py --check    fail if the files are not what would be written

It needs no JAX.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from jaxmlir.dialect import ops  # noqa: E402

# --- the dialect in IRDL --------------------------------------------------------------------------

_IRDL_HEADER = """\
// The jaxpr dialect for stock MLIR tools: mlir-opt --irdl-file=jaxpr.irdl.mlir program.mlir
// Generated from the op table, jaxmlir/dialect/ops, by tools/generate_dialect.py. Do not edit.
//
// IRDL states how many operands and results an op has, and which attributes it cannot do without.
// What it cannot state: attributes that may be absent, and a list of operands of any length whose
// types differ. IRDL takes all members of a variadic list to have one type, so a program with mixed
// lists is first rewritten by jaxmlir/cli/stock_verify.py, which casts their members to !jaxpr.any.
"""

_IRDL_TYPES = """\
  // A random key of an implementation, as in tensor<4x!jaxpr.key<"fry">>.
  irdl.type @key {
    %0 = irdl.base "#builtin.string"
    irdl.parameters(impl: %0)
  }

  // A mutable reference to a value, as in !jaxpr.ref<tensor<4xf32>>.
  irdl.type @ref {
    %0 = irdl.any
    irdl.parameters(value: %0)
  }

  // Orders side effects; holds no data.
  irdl.type @token

  // The element type of the tangents of integers; it has one value and holds no data.
  irdl.type @float0

  // The element type of what only a kernel has, a semaphore, as a record of its dtype.
  irdl.type @extended {
    %0 = irdl.base "#builtin.dictionary"
    irdl.parameters(dtype: %0)
  }

  // What no other type describes, by its name and the handle of JAX's object in this process.
  irdl.type @aval {
    %0 = irdl.base "#builtin.string"
    %1 = irdl.base "#builtin.string"
    irdl.parameters(name: %0, handle: %1)
  }

  // Any type: only where jaxmlir/cli/stock_verify.py hides the types of a mixed list.
  irdl.type @any
"""

# Attributes of these kinds have one form in the text; those of other kinds may have several.
_IRDL_BASES = {
    "function": "#builtin.symbol_ref",
    "functions": "#builtin.array",
    "lists of functions": "#builtin.array",
    "str": "#builtin.string",
}


def irdl() -> str:
    """The dialect as an IRDL module."""
    body = "\n".join(_irdl_operation(op) for op in ops.OPS.values())
    return f"{_IRDL_HEADER}\nirdl.dialect @jaxpr {{\n{_IRDL_TYPES}\n{body}}}\n"


def _irdl_operation(op: ops.Op) -> str:
    constraints: list[str] = []

    def constraint(text: str) -> str:
        constraints.append(text)
        return f"%{len(constraints) - 1}"

    def values(keyword: str, count: int | None) -> str:
        if count == 0:
            return ""
        if count is None:
            return f"irdl.{keyword}({keyword}: variadic {constraint('irdl.any')})"
        each = (f"{keyword[0]}{i}: {constraint('irdl.any')}" for i in range(count))
        return f"irdl.{keyword}({', '.join(each)})"

    attributes = ", ".join(
        f'"{a.name}" = {constraint(_irdl_attribute(a))}' for a in op.attributes if a.mandatory
    )
    clauses = [
        values("operands", op.operands),
        values("results", op.results),
        f"irdl.attributes {{{attributes}}}" if attributes else "",
    ]
    lines = [f"%{i} = {text}" for i, text in enumerate(constraints)]
    lines += [clause for clause in clauses if clause]
    inside = "".join(f"    {line}\n" for line in lines)
    traits = f"  // Traits: {', '.join(map(_trait, op.traits))}.\n" if op.traits else ""
    return f"  // {op.summary}\n{traits}  irdl.operation @{op.name} {{\n{inside}  }}\n"


def _irdl_attribute(attribute: ops.Attr) -> str:
    base = None if attribute.each else _IRDL_BASES.get(attribute.kind)
    return f'irdl.base "{base}"' if base else "irdl.any"


# --- the reference --------------------------------------------------------------------------------

_REFERENCE_HEADER = """\
# The jaxpr dialect: reference of its ops

`tools/generate_dialect.py` generates this page from the op table, `jaxmlir/dialect/ops`.

An equation of a jaxpr is one op, `jaxpr.<primitive>`. Its params are attributes with JAX's names. A
sub-jaxpr is a private function, and an attribute names it. An attribute that equals its default is
not printed. Ops print in MLIR's generic form:

```mlir
%2 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 1>} : (tensor<8x128xf32>) -> tensor<8xf32>
```

Any op may also have `jaxpr.effects`, its side effects; `jaxpr.ctx`, if it was traced under a
configuration that is not JAX's default; and `jaxpr.primitive`, if two primitives have the same
name.

The columns of the tables:

- **in**, **out**: the numbers of operands and results; *n* is any number.
- **attributes**: name, kind, and the default after `=`. An attribute in **bold** has no default and
  is always present. A kind that ends in `?` allows `none`. `absent` is the default of a param that
  JAX may leave out. The kinds are explained in `jaxmlir/dialect/ops/record.py`.
- **linear in**: the operands, counted from 0, in which the op is jointly linear; *or* is between
  operands in each of which it is linear if the others are held fixed.
- **traits**: what the op has in common with others, as in the table below.
- **inverse**: the inverse of the op, where z is the result of x and y, or the reason why there is
  none (docs/inverse.md).
- **JAX**: the versions that have the primitive, if not all do. Versions of an attribute are after
  `@`.

† marks ops whose lowering reads the equations of their functions. It does not accept a function
that only calls another one.

| trait | meaning |
|---|---|
"""


def reference() -> str:
    """The op reference as Markdown."""
    contents = [
        f"- [{_title(family)}](#{_title(family).lower().replace(' ', '-')}): "
        f"{', '.join(f'`{op.name}`' for op in family.ops)}"
        for family in ops.FAMILIES
    ]
    count = f"{len(ops.OPS)} ops in {len(ops.FAMILIES)} families:\n"
    sections = [section for family in ops.FAMILIES for section in _section(family)]
    traits = [f"| {_trait(trait)} | {trait.value} |" for trait in ops.Trait]
    header = _REFERENCE_HEADER + "\n".join([*traits, ""])
    return "\n".join([header, count, *contents, "", *sections])


def _title(family: ops.Family) -> str:
    return family.name.replace("_", " ").capitalize()


def _section(family: ops.Family) -> Iterator[str]:
    yield f"## {_title(family)}\n"
    yield f"{family.meaning}\n"
    yield "| op | meaning | in | out | attributes | linear in | traits | inverse | JAX |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for op in family.ops:
        cells = [
            f"`{op.name}`" + ("†" if op.functions and op.bodies == "inspected" else ""),
            op.summary,
            _count(op.operands),
            _count(op.results),
            "<br>".join(map(_attribute, op.attributes)),
            _linear(op),
            ", ".join(map(_trait, op.traits)) + (f" by `{op.combine}`" if op.combine else ""),
            op.inverse + (f", where {op.domain}" if op.domain else ""),
            "none: the dialect's own" if op.jax == ops.OURS else op.jax,
        ]
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _count(count: int | None) -> str:
    return "*n*" if count is None else str(count)


def _attribute(attribute: ops.Attr) -> str:
    name = f"**{attribute.name}**" if attribute.required else attribute.name
    default = "" if attribute.required else f" = {_default(attribute)}"
    versions = f" @ {attribute.jax}" if attribute.jax else ""
    renamed = "".join(f" ({old} @ {where})" for where, old in attribute.renamed)
    return f"{name}: {attribute.form}{default}{versions}{renamed}"


def _default(attribute: ops.Attr) -> str:
    value = attribute.default
    if attribute.optional:
        return "absent"
    if isinstance(value, str):
        return f'"{value}"'
    return "none" if value is None else str(value).lower()


def _linear(op: ops.Op) -> str:
    if op.linear_each:
        return " *or* ".join(map(str, op.linear_each))
    return ", ".join("..." if i is ... else str(i) for i in op.linear or ())


def _trait(trait: ops.Trait) -> str:
    return trait.name.lower().replace("_", " ")


# --- the inverses ---------------------------------------------------------------------------------

_INVERSES = "docs/inverse.md"
_BEGIN = "<!-- generated from jaxmlir/dialect/ops by tools/generate_dialect.py: the rules -->\n"
_END = "<!-- end of the rules -->\n"


def inverses() -> str:
    """The page about inverses, with the current rules of the op table."""
    page = (ROOT / _INVERSES).read_text()
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    sections = [section for family in ops.FAMILIES for section in _inverses_of(family)]
    return "\n".join([before + _BEGIN, *sections, _END + after])


def _inverses_of(family: ops.Family) -> Iterator[str]:
    rules: dict[tuple[str, str], list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for op in family.ops:
        if op.has_inverse:
            rules.setdefault((op.inverse, op.domain), []).append(op.name)
        else:
            reasons.setdefault(op.inverse, []).append(op.name)
    if rules:
        yield f"**{_title(family)}**\n"
        yield "| op | inverse | where |"
        yield "|---|---|---|"
        for (inverse, domain), names in rules.items():
            cells = [", ".join(f"`{name}`" for name in names), inverse, domain]
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""
    else:
        yield f"**{_title(family)}**: none.\n"
    for reason, names in reasons.items():
        yield f"- {', '.join(f'`{name}`' for name in names)}: {reason.partition(': ')[2]}."
    if reasons:
        yield ""


# --- the command ----------------------------------------------------------------------------------


def files() -> dict[Path, str]:
    """The generated files: maps the path from the root of the repository to the text."""
    return {
        Path("jaxmlir/dialect/jaxpr.irdl.mlir"): irdl(),
        Path("docs/ops.md"): reference(),
        Path(_INVERSES): inverses(),
    }


def stale() -> list[Path]:
    """The files that are missing or differ from what would be generated."""
    return [
        path
        for path, text in files().items()
        if not (ROOT / path).exists() or (ROOT / path).read_text() != text
    ]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    if parser.parse_args(argv).check:
        for path in stale():
            print(f"{path} is stale: run python tools/generate_dialect.py", file=sys.stderr)
        return 1 if stale() else 0
    for path, text in files().items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
