"""Passes, their options, and pipelines; MLIR's own parser and passes are the oracle."""

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib.mlir.passmanager import PassManager

import jaxmlir
from jaxmlir import toolbox
from jaxmlir.dialect.ir import context, functions, ir, parse_module
from jaxmlir.errors import PassError, PipelineError
from jaxmlir.passes import (
    BUILTIN_PASSES,
    Instrumentation,
    Pass,
    Timing,
    base,
    cxx,
    describe_passes,
    descriptions,
    find_pass,
    list_passes,
    parse_pipeline,
)
from jaxmlir.program.program import Program

TWO_COSINES = """
func.func public @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.cosine %x : tensor<2xf32>
  %1 = stablehlo.cosine %x : tensor<2xf32>
  %2 = stablehlo.add %0, %1 : tensor<2xf32>
  return %2 : tensor<2xf32>
}
"""


@dataclass(frozen=True)
class Sample(Pass):
    """A pass with options of every type, which runs ``action``."""

    name: ClassVar[str] = "test-sample"
    in_axes: tuple[int | None, ...] = (0,)
    mode: Literal["fast", "exact"] = "fast"
    deep: bool = False
    label: str = ""
    scale: float = 1.0
    limit: int | None = None
    action: str = "nothing"

    def run(self, program):
        if self.action == "crash":
            raise KeyError("lost")
        if self.action == "rename":
            for function in functions(program.module).values():
                function.attributes["sym_name"] = ir.StringAttr.get("renamed")
        if self.action == "break":
            for function in functions(program.module).values():
                type_ = ir.TypeAttr.get(ir.FunctionType.get([], []))
                function.attributes["function_type"] = type_


@dataclass(frozen=True)
class Needy(Pass):
    """A pass with an option without a default."""

    name: ClassVar[str] = "test-needy"
    depth: int


def program(text: str = TWO_COSINES) -> Program:
    return Program(parse_module(text), {}, {})


def only(text: str) -> Pass:
    (found,) = parse_pipeline(text).passes
    return found


# -- options --


def test_options_are_parsed_to_their_types():
    options = "in-axes=1,none,-2 mode=exact deep label='a b' scale=2.5 limit=3"
    assert only(f"test-sample{{{options}}}") == Sample((1, None, -2), "exact", True, "a b", 2.5, 3)


@pytest.mark.parametrize("quoted", ["label='a b'", 'label="a b"', "label={a b}"])
def test_values_with_blanks_are_quoted(quoted):
    assert only(f"test-sample{{{quoted} deep=0}}") == Sample(label="a b")


def test_defaults_are_not_printed():
    assert str(Sample()) == "test-sample"
    assert str(Sample(limit=3, in_axes=())) == "test-sample{in-axes= limit=3}"


words = st.text(st.characters(categories=["L", "N"]) | st.sampled_from(" -_.,"))


@given(
    st.builds(
        Sample,
        in_axes=st.lists(st.none() | st.integers()).map(tuple),
        mode=st.sampled_from(["fast", "exact"]),
        deep=st.booleans(),
        label=words,
        scale=st.floats(allow_nan=False),
        limit=st.none() | st.integers(),
    )
)
def test_a_pass_survives_printing_and_parsing(sample):
    assert only(str(sample)) == sample


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("test-sample{axes=1}", "has no option 'axes'; its options are: in-axes=<int|none,...>"),
        ("test-sample{limit=x}", "option 'limit' of pass 'test-sample' expects int|none, got 'x'"),
        ("test-sample{mode=slow}", "expects fast|exact, got 'slow'"),
        ("test-sample{deep=perhaps}", "expects bool, got 'perhaps'"),
        ("test-sample{=3}", "expected key=value, got '=3'"),
        ("test-needy", "pass 'test-needy' needs the option 'depth' (int)"),
        ("jaxpr-verify{x=1}", "has no option 'x'; it has no options"),
        ("cse{x=1}", "pass 'cse' does not take 'x=1'; it has no options"),
        ("func.func(" * 65, ":1:641: error: expected pipelines nested up to 64 deep"),
    ],
)
def test_wrong_pipelines(text, message):
    with pytest.raises(PipelineError) as e:
        parse_pipeline(text)
    assert message in str(e.value)


@pytest.mark.parametrize(
    ("taken", "first"),
    [
        ("test-sample", r"[\w.]+\.Sample"),
        ("jaxpr-dce", r"jaxmlir\.[\w.]+\.Dce"),
        ("cse", "cse of MLIR, StableHLO or Shardy"),
    ],
)
def test_two_passes_of_one_name(taken, first):
    find_pass(taken)
    with pytest.raises(PipelineError, match=f"two passes are named '{taken}': {first} and .*Other"):

        @dataclass(frozen=True)
        class Other(Pass):
            name: ClassVar[str] = taken

    assert parse_pipeline(taken).names() == (taken,)


def test_a_pass_with_the_name_of_one_that_is_not_imported_yet():
    code = """
import jaxmlir
from jaxmlir.passes import Pass
class Mine(Pass):
    name = "jaxpr-dce"
try:
    jaxmlir.trace(lambda x: x)(1.0).run_passes("jaxpr-dce")
except jaxmlir.errors.PipelineError as e:
    assert str(e).startswith("two passes are named 'jaxpr-dce': __main__.Mine and jaxmlir."), e
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_classes_that_are_no_passes(monkeypatch):
    monkeypatch.setattr(Pass, "loaded", dict(Pass.loaded))
    with pytest.raises(PipelineError, match=r"cannot be named 'a pass\{'"):

        class Named(Pass):
            name: ClassVar[str] = "a pass{"

    class Mutable(Pass):
        name: ClassVar[str] = "test-mutable"
        table: dict = {}

    with pytest.raises(PipelineError, match="options of pass 'test-mutable': mutable default"):
        parse_pipeline("test-mutable")

    class Complex(Pass):
        name: ClassVar[str] = "test-complex"
        z: complex = 0j

    with pytest.raises(PipelineError, match="cannot be of type complex"):
        parse_pipeline("test-complex{z=1j}")


class Replace(Pass):
    """Replaces every op by the result of a function."""

    name: ClassVar[str] = "test-replace"
    by: str = ""
    at_the_op: bool = True

    def run(self, program):
        function = {
            "fewer": lambda x: [],
            "integers": lambda x: [x.astype(int)],
            "one": lambda x: 2 * x,
            "weak": lambda x: [jax.lax.full_like(x, 2.0)],
        }[self.by]
        with toolbox.scope():
            for op, _, operands in toolbox.ops_of(program.function("f")):
                place = toolbox.ir.InsertionPoint(op) if self.at_the_op else nullcontext()
                with place, op.location:
                    toolbox.replace(op, toolbox.emit(program, function, operands))


SINE = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "by=fewer",
            r"3:8: error: 'jaxpr.sin' op: expected values of the types \(tensor<2xf32>\) ",
        ),
        ("by=integers", r"in its place, got \(tensor<2xi32>\)"),
        ("by=one", "expected <lambda> to return a list of arrays, got"),
        ("by=weak at-the-op=false", "emit: expected an insertion point, got none"),
    ],
)
def test_what_cannot_be_put_in_an_ops_place(options, message):
    program = jaxmlir.parse(SINE)
    with pytest.raises(PassError, match=message):
        program.run_passes(f"test-replace{{{options}}}")
    assert program.run_passes("test-replace{by=weak}")(jnp.ones(2)).tolist() == [2, 2]


class Rewrite(Pass):
    """Rewrites sines with a given function."""

    name: ClassVar[str] = "test-rewrite"
    by: str = ""

    def run(self, program):
        def rewrite(sine):
            assert sine.name == "jaxpr.sin" and sine.get("accuracy") is None
            match self.by:
                case "nothing":
                    return None
                case "cosine":
                    (value,) = toolbox.emit(program, shifted_cosine, sine.operands)
                    return value
                case "row":
                    return toolbox.emit(program, lambda x: [x[0]], sine.operands)

        return toolbox.rewrite_ops(program, {"jaxpr.sin": rewrite}) > 0


def shifted_cosine(x):
    return [jnp.cos(x - jnp.pi / 2)]


def test_rewriting_op_by_op():
    def f(x):
        def step(c, _):
            return jnp.sin(c) + 1, jnp.sin(2.0)

        return jax.lax.scan(step, x, length=3)

    program = jaxmlir.trace(f)(0.5)
    same = program.run_passes("test-rewrite{by=nothing}")
    assert same.as_text() == program.as_text()
    rewritten = program.run_passes("test-rewrite{by=cosine}")
    assert "jaxpr.sin" not in rewritten.as_text() and "jaxpr.cos" in rewritten.as_text()
    for got, want in zip(rewritten(0.5), f(0.5), strict=True):
        assert got.weak_type == want.weak_type
        assert jnp.allclose(got, want, 1e-6)


def test_rewrites_are_listed_by_names_of_ops():
    with pytest.raises(PassError, match="names of ops .*, such as 'jaxpr.sin', got 'sin'"):
        toolbox.rewrite_ops(jaxmlir.parse(SINE), {"sin": lambda sine: None})


def test_rewrites_give_what_fits():
    with pytest.raises(PassError, match=r"3:8: error: 'jaxpr.sin' op: expected values of the type"):
        jaxmlir.parse(SINE).run_passes("test-rewrite{by=row}")


class Erase(Pass):
    """Erase each op, whoever uses it."""

    name: ClassVar[str] = "test-erase"

    def run(self, program):
        with toolbox.scope():
            for op, _, _ in toolbox.ops_of(program.function("f")):
                toolbox.erase(op)


def test_what_is_used_is_not_erased():
    program = jaxmlir.parse(SINE)
    message = "3:8: error: 'jaxpr.sin' op: expected no use when erased, got one by 'func.return'"
    with pytest.raises(PassError, match=message):
        program.run_passes("test-erase")
    assert program(jnp.zeros(2)).tolist() == [0, 0]


# -- pipelines --


@pytest.mark.parametrize(
    "text",
    [
        "builtin.module(cse)",
        "builtin.module(cse,func.func(canonicalize,cse),symbol-dce)",
        "builtin.module( cse , func.func( cse ) )",
        "builtin.module(inline{default-pipeline=canonicalize max-iterations=2},cse)",
        "builtin.module()",
    ],
)
def test_pipelines_of_cxx_passes_mean_what_mlir_reads(text):
    with context():
        expected = str(PassManager.parse(text))
        ours = str(PassManager.parse(str(parse_pipeline(text))))
    assert ours.replace("),func.func(", ",") == expected


def test_anchor_may_be_left_out():
    assert parse_pipeline("cse,test-sample") == parse_pipeline("builtin.module(cse,test-sample)")
    assert parse_pipeline("").passes == ()


def test_function_passes_are_nested_by_themselves():
    pipeline = parse_pipeline("chlo-legalize-to-stablehlo,cse")
    assert str(pipeline) == "builtin.module(func.func(chlo-legalize-to-stablehlo),cse)"


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("builtin.module(cse,jaxpr-verfy)", 20, "unknown pass 'jaxpr-verfy'; did you mean 'jaxpr-"),
        ("func.func(csee)", 11, "unknown pass 'csee'; did you mean 'cse'?"),
        ("quite-another-thing", 1, "unknown pass 'quite-another-thing'; see jaxmlir-opt --list"),
        ("quite-another-thing", 1, "--load imports the module of a pass of your own"),
        (
            "-O2",
            1,
            "program.optimize(2) runs the passes of level 2, as does the flag -O2 of jaxmlir",
        ),
        ("cse,", 5, "expected the name of a pass or of an operation"),
        ("func.func(cse", 14, "expected ',' or ')'"),
        ("cse)", 4, "expected ',' or the end of the pipeline"),
        ("cse,canonicalize{top-down", 17, "this '{' has no closing '}'"),
        ("func.func(jaxpr-verify)", 11, "'jaxpr-verify' runs on the whole module and cannot be"),
    ],
)
def test_malformed_pipelines_point_at_the_column(text, column, message):
    with pytest.raises(PipelineError) as e:
        parse_pipeline(text)
    first, shown, caret = str(e.value).split("\n")
    assert first.startswith(f"<pass-pipeline>:1:{column}: error: ")
    assert message in first
    assert shown == text
    assert caret == " " * (column - 1) + "^"


def test_passes_of_both_kinds_run_in_their_order():
    p = program()
    parse_pipeline("cse,test-sample{action=rename},func.func(canonicalize)").run(p)
    assert str(p.module).count("stablehlo.cosine") == 1
    assert list(functions(p.module)) == ["renamed"]


def test_neighbouring_cxx_passes_share_a_pass_manager():
    pipeline = parse_pipeline("cse,canonicalize,test-sample,cse,symbol-dce")
    assert [len(s) for s in pipeline.steps(Instrumentation())] == [2, 1, 2]
    assert [len(s) for s in pipeline.steps(Instrumentation(timing=Timing()))] == [1] * 5


# -- failures --


def test_passes_make_ops_of_other_dialects():
    """All of MLIR's dialects are available, also in a process that has not read any op of them."""
    code = """if True:
        import jaxmlir
        from jaxlib.mlir.dialects import arith
        from jaxmlir.dialect.ir import context, functions, ir

        program = jaxmlir.trace(lambda x: x)(1.0)
        with context(), ir.Location.unknown():
            (function,) = functions(program.module).values()
            with ir.InsertionPoint.at_block_begin(function.entry_block):
                arith.ConstantOp(ir.F32Type.get(), 1.0)
        print(program.module)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "%cst = arith.constant 1.000000e+00 : f32" in done.stdout


def test_a_crash_names_the_pass():
    with pytest.raises(PassError, match="pass 'test-sample' crashed: KeyError: 'lost'") as e:
        parse_pipeline("cse,test-sample{action=crash}").run(program())
    assert isinstance(e.value.__cause__, KeyError)
    assert e.value.__notes__ == ["while running pass 'test-sample'"]


def test_a_long_chain_of_calls_is_no_crash():
    text = "func.func private @f0(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }\n"
    for i in range(1, 3000):
        kind = "public" if i == 2999 else "private"
        text += (
            f"func.func {kind} @f{i}(%x: tensor<f32>) -> tensor<f32> {{\n"
            f'  %0 = "jaxpr.jit"(%x) {{jaxpr = @f{i - 1}, name = "f"}} :'
            " (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}\n"
        )
    with pytest.raises(PassError, match="pass 'jaxpr-jvp': functions call one another deeper"):
        jaxmlir.parse(text).run_passes("jaxpr-jvp")
    inlined = jaxmlir.parse(text).run_passes("jaxpr-inline,jaxpr-jvp")
    assert len(inlined.functions) == 2


def test_a_cxx_pass_that_fails_gives_its_diagnostics():
    many = program(
        "func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  return %x : tensor<?xf32>\n}\nfunc.func public @other() { return }"
    )
    with pytest.raises(PassError) as e:
        parse_pipeline("stablehlo-refine-arguments{types=tensor<2xf32>,tensor<3xf32>}").run(many)
    assert e.value.diagnostics[0].message
    assert e.value.__notes__ == ["while running pass 'stablehlo-refine-arguments'"]


def test_verify_each_blames_the_pass_that_broke_the_program():
    broken = parse_pipeline("test-sample{action=break},cse")
    with pytest.raises(Exception, match="entry block must have 0 arguments") as e:
        broken.run(program())
    assert "after running pass 'test-sample'" in e.value.__notes__[0]


# -- instrumentation --


def test_dumps(capsys):
    instrumentation = Instrumentation(
        print_before=frozenset({"cse"}), print_after=frozenset({"test-sample"})
    )
    parse_pipeline("cse,test-sample{action=rename}").run(program(), instrumentation)
    headers = [line for line in capsys.readouterr().err.split("\n") if line.startswith("//")]
    assert headers == [
        "// -----// IR Dump Before CSE (cse) //----- //",
        "// -----// IR Dump After TestSample (test-sample) //----- //",
    ]


def test_a_failed_pass_is_dumped(capsys):
    with pytest.raises(PassError):
        parse_pipeline("test-sample{action=crash}").run(
            program(), Instrumentation(print_after_all=True)
        )
    assert "IR Dump After TestSample Failed (test-sample)" in capsys.readouterr().err


def test_timing_adds_up():
    timing = Timing()
    parse_pipeline("cse,test-sample,cse").run(program(), Instrumentation(timing=timing))
    report = timing.report()
    rows = [line.split()[-1] for line in report.split("\n") if "%)" in line]
    assert rows == ["CSE", "Verifier", "TestSample", "Rest", "Total"]
    assert "(100.0%)  Total" in report


# -- the registry --


def test_the_table_of_built_in_passes_names_the_classes():
    for name, target in BUILTIN_PASSES:
        module, _, attribute = target.partition(":")
        assert getattr(importlib.import_module(module), attribute).name == name
    assert list(BUILTIN_PASSES) == sorted(BUILTIN_PASSES)


def test_every_listed_pass_has_a_summary():
    for group in list_passes().values():
        for name, summary in group.items():
            assert summary, name


def test_every_listed_cxx_pass_is_known_to_mlir():
    assert set(cxx.PASSES) - set(cxx.available()) == set()


def test_source_and_class_describe_a_pass_alike():
    for name, target in BUILTIN_PASSES:
        module, _, attribute = target.partition(":")
        cls = getattr(importlib.import_module(module), attribute)
        assert descriptions.of_target(target) == descriptions.of_class(cls), name
    assert descriptions.of_target("no_such_package.module:Pass") == descriptions.NOTHING


PLUGGED = """
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxmlir.dialect.ir import functions, ir
from jaxmlir.passes import Pass


class Named(Pass):
    to: str = "plugged"


@dataclass(frozen=True)
class Plugged(Named):
    '''Plugged in, and
    rename the functions.

    Options:
      to: the name
        that they get.
      how: fast or well.
    '''

    name: ClassVar[str] = "test-plugged"
    to: str = "plugged"
    how: Literal["fast", "well"] = "well"
    axes: tuple[int | None, ...] = (0, None)
    scale: "float" = 2.0

    def run(self, program):
        for function in functions(program.module).values():
            function.attributes["sym_name"] = ir.StringAttr.get(self.to)
"""


@pytest.fixture
def installed(tmp_path):
    """The folder of an installed package that offers passes."""
    package = tmp_path / "plugged_package"
    package.mkdir()
    (package / "__init__.py").write_text("import jax  # What listing the passes must not do.\n")
    (package / "passes.py").write_text(PLUGGED)
    metadata = tmp_path / "plugged-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[jaxmlir.passes]\ntest-plugged = plugged_package.passes:Plugged\n"
        "test-gone = plugged_package.passes:Gone\n"
    )
    return tmp_path


def test_passes_of_installed_packages(installed, monkeypatch):
    monkeypatch.syspath_prepend(str(installed))
    found = describe_passes()["Passes of loaded modules and installed packages"]["test-plugged"]
    assert found.summary == "Plugged in, and rename the functions"
    assert [f"{option}: {option.description}" for option in found.options] == [
        "to=<str>: the name that they get (default: plugged)",
        "how=<fast|well>: fast or well (default: well)",
        "axes=<int|none,...>: (default: 0,none)",
        "scale=<float>: (default: 2.0)",
    ]
    assert found == descriptions.of_class(type(only("test-plugged")))
    with pytest.raises(PipelineError, match="plugged_package.passes:Gone, which cannot be import"):
        parse_pipeline("test-gone")


def test_passes_of_a_package_that_only_a_finder_of_its_own_knows(tmp_path, monkeypatch):
    """A package that is installed in editable mode has such a finder."""
    package = tmp_path / "in_editable_mode"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    (package / "passes.py").write_text(PLUGGED)

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == package.name:
                return importlib.util.spec_from_file_location(name, package / "__init__.py")

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    found = descriptions.of_target("in_editable_mode.passes:Plugged")
    assert found.summary == "Plugged in, and rename the functions"
    assert len(found.options) == 4


def test_the_tool_lists_and_runs_passes_of_installed_packages(installed, tmp_path):
    file = tmp_path / "f.mlir"
    file.write_text(TWO_COSINES)
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(installed)])

    def tool(*arguments):
        code = (
            "import sys; from jaxmlir.cli.opt import main; status = main(sys.argv[1:]); "
            "print('jax' in sys.modules, file=sys.stderr); sys.exit(status)"
        )
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    listed = tool("--list-passes")
    assert "\n  --test-plugged                     - Plugged in, and rename the" in listed.stdout
    assert "\n      how=<fast|well>                - fast or well (default: well)" in listed.stdout
    assert listed.stderr == "False\n"
    assert "func.func public @there" in tool(str(file), "--test-plugged=to=there").stdout


# -- JAX stays out until it is needed --


@pytest.mark.sampled
@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["--list-passes"],
        ["--show-dialects"],
        ["{file}"],
        ["{file}", "--cse", "--mlir-print-debuginfo"],
        ["{file}", "--emit-bytecode", "-o", "{file}.bc"],
    ],
)
def test_the_tool_does_not_import_jax(tmp_path, arguments):
    file = tmp_path / "f.mlir"
    file.write_text(TWO_COSINES)
    code = (
        "import sys; from jaxmlir.cli.opt import main; status = main(sys.argv[1:]); "
        "sys.exit('jax was imported' if 'jax' in sys.modules else status)"
    )
    argv = [a.format(file=file) for a in arguments]
    done = subprocess.run(
        [sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_pass_of_the_documentation_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "jaxmlir-opt.md"
    source = re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)[1]
    exec(compile(source, str(page), "exec"), {"__name__": "documented"})
    parse_pipeline("count-ops{minimum=4},count-ops{minimum=5}").run(program())
    assert capsys.readouterr().out == "4\n"


def test_a_pass_is_found_when_its_module_is_there_to_the_end(tmp_path, monkeypatch):
    """Another thread imports the module, and registers the class before the end of the import."""
    (tmp_path / "slow_to_import.py").write_text(
        "import time\n"
        "from jaxmlir.passes import Pass\n"
        "class Slow(Pass):\n"
        "    name = 'test-slow-to-import'\n"
        "time.sleep(0.3)\n"
        "COMPLETE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Pass, "loaded", dict(Pass.loaded))
    name, target = "test-slow-to-import", "slow_to_import:Slow"
    thread = threading.Thread(target=importlib.import_module, args=("slow_to_import",))
    thread.start()
    while name not in Pass.loaded:
        time.sleep(0.001)
    found = base.find_class(name, ((name, target),))
    assert sys.modules[found.__module__].COMPLETE
    thread.join()
    del sys.modules["slow_to_import"]
