"""Verifies a program of the jaxpr dialect with stock MLIR: mlir-opt and the dialect in IRDL.

    python -m jaxmlir.cli.stock_verify program.mlir
    python -m jaxmlir.cli.stock_verify program.mlir --print     the module that mlir-opt reads

Two things that IRDL cannot state are rewritten first. In a variadic list of operands or results,
IRDL requires all types to be equal, so the members of a mixed list are cast to ``!jaxpr.any`` and
back. An op that the IRDL file does not declare is an error, so a copy of the file declares a user's
own primitives, by their names only.

Errors are located in the original program.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from jaxmlir.dialect import ops
from jaxmlir.dialect.ir import inner_ops, ir, parse_module, scope
from jaxmlir.errors import ParseError

IRDL = Path(ops.__file__).parents[1] / "jaxpr.irdl.mlir"
"""The dialect in IRDL, for stock MLIR tools."""


def mlir_opt() -> str | None:
    """The stock mlir-opt on this machine that can read the IRDL file."""
    return shutil.which("mlir-opt-22")


def verify(text: str, filename: str = "-") -> subprocess.CompletedProcess[str]:
    """Runs stock mlir-opt on a program; its errors are in ``stderr``.

    Raises:
      ParseError: jaxlib's MLIR cannot parse the text.
      FileNotFoundError: there is no stock mlir-opt.
    """
    tool = mlir_opt()
    if tool is None:
        raise FileNotFoundError("mlir-opt-22 is not installed (Debian: mlir-22-tools)")
    with scope():
        module = parse_module(text, filename)
        foreign = prepare(module)
        source = module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)
    with tempfile.TemporaryDirectory() as folder:
        irdl = Path(folder, IRDL.name)
        irdl.write_text(declare(foreign))
        command = [tool, f"--irdl-file={irdl}", "-o", "/dev/null", "-"]
        done = subprocess.run(command, input=source, capture_output=True, text=True)
    # MLIR calls a parsed string "-".
    done.stderr = re.sub(r"(?m)^-:", f"{filename}:", done.stderr)
    return done


def prepare(module: ir.Module) -> set[str]:
    """Casts mixed lists to one type, in place; returns the names of ops that the dialect lacks."""
    operations = [op.operation for op in inner_ops(module)]
    jaxpr_ops = [op for op in operations if op.name.startswith("jaxpr.")]
    foreign = {_name(op) for op in jaxpr_ops} - ops.OPS.keys()
    for op in jaxpr_ops:
        _unify(op)
    return foreign


def declare(names: set[str]) -> str:
    """The dialect in IRDL, with additional ops of these names."""
    text = IRDL.read_text()
    lists = "irdl.operands(operands: variadic %0) irdl.results(results: variadic %1)"
    extra = "".join(
        f"  irdl.operation @{name} {{ %0 = irdl.any %1 = irdl.any {lists} }}\n"
        for name in sorted(names)
    )
    return f"{text[: text.rindex('}')]}{extra}}}\n"


def _name(op: ir.Operation) -> str:
    return op.name.removeprefix("jaxpr.")


def _unify(op: ir.Operation) -> None:
    """Replaces an op with mixed variadic lists by one on ``!jaxpr.any``."""
    record = ops.OPS.get(_name(op))
    operands, results = list(op.operands), list(op.results)
    mixed_in = (record is None or record.operands is None) and _mixed(operands)
    mixed_out = (record is None or record.results is None) and _mixed(results)
    if not mixed_in and not mixed_out:
        return
    hidden = ir.Type.parse("!jaxpr.any")
    with ir.InsertionPoint(op), op.location:
        unified = ir.Operation.create(
            op.name,
            [hidden if mixed_out else value.type for value in results],
            [_cast(value, hidden) for value in operands] if mixed_in else operands,
            dict(op.attributes.items()),
        )
        for result, value in zip(results, unified.results, strict=True):
            result.replace_all_uses_with(_cast(value, result.type) if mixed_out else value)
    op.erase()


def _mixed(values: list[ir.Value]) -> bool:
    return len({value.type for value in values}) > 1


def _cast(value: ir.Value, to: ir.Type) -> ir.Value:
    return ir.Operation.create("builtin.unrealized_conversion_cast", [to], [value]).result


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument(
        "--print", action="store_true", help="print the module that mlir-opt reads, and stop"
    )
    arguments = parser.parse_args(argv)
    try:
        text = arguments.program.read_text()
        if arguments.print:
            with scope():
                module = parse_module(text, str(arguments.program))
                prepare(module)
                print(module)
            return 0
        done = verify(text, str(arguments.program))
    except (OSError, ParseError) as e:
        print(e, file=sys.stderr)
        return 1
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
