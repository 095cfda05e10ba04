"""The command line tools beside stock mlir-opt: same input, same flags, same output and status."""

import os
import shutil
import signal
import subprocess
import sys
import tomllib

import generate_opt_table
import pytest

from jaxmlir.cli import command_line, opt

GOOD = """func.func @f(%x: f32) -> f32 {
  return %x : f32
}
"""
WRONG_TYPE = """func.func @f(%x: f32) -> i32 {
  return %x : f32
}
"""
SYNTAX_ERROR = "func.func @f(\n"
COSINES = """func.func @f(%x: f32) -> f32 {
  %0 = math.cos %x : f32
  %1 = math.cos %x : f32
  %2 = arith.addf %0, %1 : f32
  return %2 : f32
}
"""
EXPECTED = """func.func @f(%x: f32) -> i32 {
  // expected-error@+1 {{doesn't match function result type}}
  return %x : f32
}
"""
SEVERAL_EXPECTED = """func.func @f(%x: f32) -> i32 {
  // expected-note@below {{see current operation}}
  // expected-error-re@below {{operand {{[0-9]}} ('f32') doesn't match}}
  return %x : f32
  // expected-error@above {{not this}}
}
"""


def pieces(*texts: str) -> str:
    return "// -----\n".join(texts)


CASES = [
    pytest.param(GOOD, [], id="good"),
    pytest.param(WRONG_TYPE, [], id="verification error"),
    pytest.param(SYNTAX_ERROR, [], id="syntax error"),
    pytest.param("", [], id="empty"),
    pytest.param(COSINES, ["--cse"], id="a pass"),
    pytest.param(COSINES, ["-cse", "-canonicalize"], id="one dash"),
    pytest.param(COSINES, ["--pass-pipeline=builtin.module(func.func(cse))"], id="pipeline"),
    pytest.param(COSINES, ["--pass-pipeline", "builtin.module(cse)"], id="separate value"),
    pytest.param(COSINES, ["--canonicalize=max-iterations=2 top-down=false"], id="options"),
    pytest.param(COSINES, ["--cse", "--mlir-print-ir-after-all"], id="dump after"),
    pytest.param(COSINES, ["--cse", "--mlir-print-ir-before=cse"], id="dump before"),
    pytest.param(COSINES, ["--mlir-print-debuginfo"], id="locations"),
    pytest.param(COSINES, ["--mlir-print-debuginfo", "--mlir-print-local-scope"], id="local scope"),
    pytest.param(COSINES, ["--mlir-print-op-generic"], id="generic form"),
    pytest.param(pieces(GOOD, COSINES), ["--split-input-file", "--cse"], id="split"),
    pytest.param(pieces(GOOD, WRONG_TYPE, GOOD), ["--split-input-file"], id="split with an error"),
    pytest.param(pieces(GOOD, GOOD), [], id="not split"),
    pytest.param(EXPECTED, ["--verify-diagnostics"], id="expected"),
    pytest.param(SEVERAL_EXPECTED, ["--verify-diagnostics"], id="one unmet"),
    pytest.param(GOOD, ["--verify-diagnostics"], id="nothing expected"),
    pytest.param(WRONG_TYPE, ["--verify-diagnostics"], id="unexpected"),
    pytest.param(
        pieces(GOOD, EXPECTED, SEVERAL_EXPECTED),
        ["--split-input-file", "--verify-diagnostics"],
        id="split and expected",
    ),
    pytest.param(
        "func.func @f() -> tensor<3xf32> {\n  %0 = arith.constant dense<[1.0, 2.0, 3.0]> :"
        " tensor<3xf32>\n  return %0 : tensor<3xf32>\n}\n",
        ["--mlir-elide-elementsattrs-if-larger=2"],
        id="elided",
    ),
]


def run_ours(file, flags, capfdbinary):
    status = opt.main([str(file), *flags])
    out, err = capfdbinary.readouterr()
    return status, out.decode(), err.decode()


def run_stock(file, flags):
    done = subprocess.run(
        ["mlir-opt-22", str(file), *flags], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def without_tildes(text: str) -> str:
    """mlir-opt underlines source ranges; we print only the caret."""
    return "\n".join(
        line.rstrip("~") if set(line) <= {" ", "^", "~"} else line for line in text.split("\n")
    )


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="needs Debian's mlir-22-tools")
@pytest.mark.parametrize(("text", "flags"), CASES)
def test_as_mlir_opt(tmp_path, capfdbinary, text, flags):
    file = tmp_path / "input.mlir"
    file.write_text(text)
    expected = run_stock(file, flags)
    status, out, err = run_ours(file, flags, capfdbinary)
    assert status == expected[0]
    assert out.strip() == expected[1].strip()
    assert without_tildes(err).strip() == without_tildes(expected[2]).strip()


def test_the_tools_are_modules():
    for tool in ("opt", "translate", "run"):
        command = [sys.executable, "-m", f"jaxmlir.cli.{tool}", "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(f"jaxmlir-{tool}: jaxmlir ")


@pytest.mark.parametrize("tool", ["opt", "run"])
def test_output_that_cannot_be_written(tool):
    """A closed pipe is not an error; a full device is."""
    command = [sys.executable, "-m", f"jaxmlir.cli.{tool}", "--help"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed, open("/dev/full", "wb") as full:
        gone = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
        no_space = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (gone.returncode, gone.stderr) == (1, b"")
    assert (no_space.returncode, no_space.stderr) == (
        1,
        f"jaxmlir-{tool}: No space left on device\n".encode(),
    )


def test_a_stream_that_is_closed_is_named(monkeypatch, capsys, tmp_path):
    """Python then has no stream object: ``jaxmlir-opt <&-``."""
    module = tmp_path / "module.mlir"
    module.write_text("module {}")
    monkeypatch.setattr("sys.stdin", None)
    assert opt.main([]) == 1
    assert "cannot read stdin: it is closed" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdout", None)
    assert opt.main([str(module), "-o", str(tmp_path / "out.mlir")]) == 0
    assert opt.main([str(module)]) == 1
    assert "cannot write to stdout: it is closed" in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_no_half_of_an_output_stays(tmp_path, monkeypatch, capsys, error):
    """An incompletely written file is removed, as by LLVM's tools."""
    file = tmp_path / "output.mlir"
    arguments = command_line.parse_arguments(["-o", str(file)], [command_line.OUTPUT])

    def body(_):
        with command_line.output_file(str(file)) as opened:
            opened.write(b"half")
            raise error

    status = command_line.run_tool("jaxmlir-opt", body, [])
    assert not file.exists()
    if isinstance(error, KeyboardInterrupt):
        assert (status, capsys.readouterr().err) == (130, "")
    else:
        message = f"jaxmlir-opt: cannot write output file '{file}': No space left on device\n"
        assert (status, capsys.readouterr().err) == (1, message)
    command_line.write_bytes(arguments, b"all")
    assert file.read_bytes() == b"all"


def test_a_device_is_no_output_to_remove():
    with pytest.raises(
        command_line.UsageError, match="cannot write output file '/dev/full': No space"
    ):
        with command_line.output_file("/dev/full") as file:
            file.write(b"text")
    assert os.path.exists("/dev/full")


def test_interrupted(tmp_path):
    """Ctrl-C ends a tool without a traceback."""
    source = tmp_path / "source.mlir"
    os.mkfifo(source)
    # Background jobs of a shell ignore the signal, and their children would inherit that.
    heeding = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    run = "runpy.run_module('jaxmlir.cli.opt', run_name='__main__', alter_sys=True)"
    command = [sys.executable, "-c", f"import runpy, signal; {heeding}; {run}", str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
        # This returns when the tool opens the pipe for reading.
        with open(source, "wb"):
            tool.send_signal(signal.SIGINT)
            assert tool.communicate(timeout=60) == (b"", b"")
    assert tool.returncode == 130


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 1, "usage: python -m jaxmlir.backend (script.py | -m module) [arguments]"),
        (["--hepl"], 1, "usage: python -m jaxmlir.backend (script.py | -m module) [arguments]"),
        (["--help"], 0, "usage: python -m jaxmlir.backend (script.py | -m module) [arguments]"),
        (["gone.py"], 1, "python -m jaxmlir.backend: there is no file 'gone.py'"),
        (["-m", "gone"], 1, "python -m jaxmlir.backend: there is no module 'gone'"),
        (["-m", "gone.too"], 1, "python -m jaxmlir.backend: there is no module 'gone.too'"),
    ],
)
def test_what_the_backend_is_to_run(arguments, status, message):
    command = [sys.executable, "-m", "jaxmlir.backend", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, (done.stdout + done.stderr).strip()) == (status, message)


# --- mlir-opt's options ---------------------------------------------------------------------------


def test_the_table_of_options_is_as_generated():
    text = generate_opt_table.PAGE.read_text(encoding="utf-8")
    assert generate_opt_table.page(text) == text, "run python tools/generate_opt_table.py"


@pytest.mark.skipif(generate_opt_table.installed() is None, reason="mlir-opt-22 is not installed")
def test_the_options_are_those_of_mlir_opt():
    known = tomllib.loads(generate_opt_table.OPTIONS.read_text(encoding="utf-8"))["options"]
    assert known.keys() == generate_opt_table.options_of(generate_opt_table.installed()).keys()


def test_an_option_that_is_not_supported_says_why(capsys):
    assert opt.main(["--mlir-print-value-users", "-"]) == 1
    said = capsys.readouterr().err
    assert "--mlir-print-value-users of mlir-opt is not supported: the bindings" in said
