"""Graphviz text of a program: a cluster for each function, a node for each op."""

from __future__ import annotations

from collections.abc import Iterator

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.ir import scope
from jaxmlir.dialect.module import Module
from jaxmlir.viewer.form import Tables, calls_of

_HEAD = """\
  compound=true; rankdir=TB;
  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=10];
  edge [color="#666666", arrowsize=0.6];
"""


def dot_of(program: Module) -> str:
    """The program in Graphviz's language.  An edge is a value; a dashed edge leads from an op to a
    function that the op refers to."""
    with scope():
        analyses = analyses_of(program)
        views = {symbol: analyses.body(f) for symbol, f in program.functions.items()}
        numbers = {symbol: i for i, symbol in enumerate(views)}
        tables = Tables(source_info=False)
        lines = [f"digraph {_quoted(program.name)} {{\n{_HEAD}"]
        for symbol, view in views.items():
            lines += _cluster(symbol, numbers[symbol], view, tables)
        for symbol, view in views.items():
            for index, callees in calls_of(view, numbers):
                lines += [_call(f"f{numbers[symbol]}_{index}", numbers[c]) for c in callees]
    return "".join([*lines, "}\n"])


def _cluster(symbol: str, number: int, view: FunctionView, tables: Tables) -> Iterator[str]:
    types = [tables.type(type_) for type_ in view.types]
    names = tables.types.rows

    def typed(first: int, last: int) -> str:
        return ", ".join(names[number] for number in types[first:last])

    def node(value: int) -> str:
        maker = view.makers[value]
        return f"f{number}_a{value}" if maker is None else f"f{number}_{maker}"

    yield f"  subgraph cluster_{number} {{\n    label={_quoted('@' + symbol)};\n"
    for value in range(view.arity):
        label = _quoted(f"%arg{value}\n{typed(value, value + 1)}")
        yield f"    f{number}_a{value} [label={label}, shape=ellipse];\n"
    for index, name in enumerate(view.names):
        label = _quoted(f"{name.removeprefix('jaxpr.')}\n{typed(*view.results[index])}")
        yield f"    f{number}_{index} [label={label}];\n"
    yield f'    f{number}_return [label="return", shape=ellipse];\n'
    for index, operands in enumerate(view.operands):
        for value in dict.fromkeys(operands):
            yield f"    {node(value)} -> f{number}_{index};\n"
    for value in dict.fromkeys(view.returned):
        yield f"    {node(value)} -> f{number}_return;\n"
    yield "  }\n"


def _call(op: str, callee: int) -> str:
    ends = f"lhead=cluster_{callee}, style=dashed, constraint=false"
    return f"  {op} -> f{callee}_return [{ends}];\n"


def _quoted(text: str) -> str:
    """Quotes a string for Graphviz, where a backslash begins an escape."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
