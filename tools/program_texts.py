"""Writes the optimised text of many programs and their gradients, and compares two such sets.

    python tools/program_texts.py write BEFORE      with the code as it was
    python tools/program_texts.py write AFTER       with the code as it is
    python tools/program_texts.py compare BEFORE AFTER --rename
    jaxpr-materialize-shared=jaxpr-materialize

This shows that a change that only moves or renames code leaves compiled programs alone.  With
``PYTHONPATH=/path/of/a/checkout`` in front of ``write``, jaxmlir and the benchmark programs come
from that checkout; the tool itself is always this one.

The programs are in groups: the benchmark programs in both sizes (``full``, ``small``), the formulas
of the benchmarks (``formulas``), programs on which one pass has most to do (``worst_cases``), and a
fixed sample of JAX's own test harnesses of every kind (``harnesses``).  For each program and each
level N there are two files, ``GROUP/NAME.program.ON.mlir`` and ``GROUP/NAME.gradient.ON.mlir``:
the program optimised at that level, and its gradient as ``jaxmlir.jit`` makes it, optimised before
and after differentiation.  The gradient of a harness is that of the sum of its results with respect
to its floating-point arguments; without such arguments there is no gradient.  ``--lower`` adds the
StableHLO of each, for the first platform of ``JAX_PLATFORMS`` (CPU by default), in ``.stablehlo``
files.  Arrays that a text only names are listed below it as digests.  The text of a program that
fails is its error, so a new failure is a difference as well.

``compare`` names the programs that differ, shows some of the differences, and exits with 1 if there
are any.  Two runs on one commit give the same texts.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import hashlib
import inspect
import itertools
import json
import multiprocessing
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")

ROOT = Path(__file__).resolve().parent.parent
# A checkout in PYTHONPATH comes before this one, and this one before installed packages.
_NAMED = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
sys.path[1 + len(_NAMED) : 1 + len(_NAMED)] = [str(ROOT), str(ROOT / "tools")]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402
from tool_options import positive  # noqa: E402

import jaxmlir  # noqa: E402
import jaxmlir.passes  # noqa: E402
from benchmarks import programs  # noqa: E402
from benchmarks.programs import worst_cases  # noqa: E402

LEVELS = (0, 1, 2)
DERIVATIVES = ("program", "gradient")
# The approximate number of ops in the programs of worst cases.
WORST_OPS = 300
# A file beside the texts that describes the run.
ABOUT = "about.json"

Function = Callable[..., Any]


class Subject(NamedTuple):
    """A function with its arguments, and the arguments that it is differentiated in."""

    function: Function
    args: Sequence[Any]
    argnums: Sequence[int]
    scalar: Function


# --- the programs ---------------------------------------------------------------------------------


@functools.cache
def subjects(sample: int) -> dict[str, Callable[[], Subject]]:
    """Makers of all subjects, by ``group/name``."""
    benchmarks = {**programs.PROGRAMS, **programs.NAIVE}
    makers = {
        f"{size}/{name}": functools.partial(benchmark.make, size)
        for size in ("full", "small")
        for name, benchmark in benchmarks.items()
    }
    makers |= {f"formulas/{name}": make for name, make in programs.FORMULAS.items()}
    makers |= {
        f"worst_cases/{name}": functools.partial(make, WORST_OPS)
        for name, make in inspect.getmembers(worst_cases, inspect.isfunction)
        if make.__module__ == worst_cases.__name__ and "n" in inspect.signature(make).parameters
    }
    found = {name: functools.partial(_of_benchmark, make) for name, make in makers.items()}
    for harness in _harnesses(sample):
        name = _unique(f"harnesses/{_file_name(harness.fullname)}", found)
        found[name] = functools.partial(_of_harness, harness)
    return found


def _of_benchmark(make: Callable[[], tuple[Function, Sequence[Any]]]) -> Subject:
    """The subject of a benchmark program, differentiated in its first argument."""
    function, args = make()
    abstract = jax.tree.map(_abstract, tuple(args))
    is_scalar = getattr(jax.eval_shape(function, *abstract), "shape", None) == ()
    return Subject(function, abstract, (0,), function if is_scalar else _summed(function))


def _of_harness(harness: Any) -> Subject:
    """The subject of a harness, differentiated in all arguments of real numbers."""
    args = harness.dyn_args_maker(np.random.RandomState(0))
    argnums = tuple(i for i, x in enumerate(args) if _is_real(x))
    return Subject(harness.dyn_fun, args, argnums, _summed(harness.dyn_fun))


def _summed(function: Function) -> Function:
    """The function that sums all floating-point numbers in the results of another function."""

    @functools.wraps(function)
    def summed(*args: Any) -> jax.Array:
        results = [x for x in jax.tree.leaves(function(*args)) if _is_inexact(x)]
        return sum((jnp.sum(jnp.real(x)).astype(jnp.float32) for x in results), jnp.float32(0))

    return summed


def _abstract(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _is_inexact(array: Any) -> bool:
    return hasattr(array, "dtype") and jnp.issubdtype(array.dtype, jnp.inexact)


def _is_real(array: Any) -> bool:
    return hasattr(array, "dtype") and jnp.issubdtype(array.dtype, jnp.floating)


def _harnesses(sample: int) -> list[Any]:
    """About ``sample`` of JAX's harnesses, the same ones in each run with one version of JAX."""
    import conformance

    known = conformance.harnesses()
    chosen = conformance.sample([harness.group_name for harness in known], sample)
    return [known[i] for i in chosen]


def _file_name(name: str) -> str:
    """A file name for this name; one that is too long is cut and gets a digest."""
    plain = re.sub(r"[^\w.,=\[\]-]+", "_", name)
    if len(plain) <= 150:
        return plain
    return f"{plain[:140]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _unique(name: str, taken: Collection[str]) -> str:
    """The name, with a number if it is taken."""
    numbered = (f"{name}-{i}" for i in itertools.count(2))
    return next(n for n in itertools.chain([name], numbered) if n not in taken)


# --- writing --------------------------------------------------------------------------------------


def texts(subject: Subject, *, lower: bool = False) -> Iterator[tuple[str, str]]:
    """The texts of one subject, each preceded by the ending of its file's name."""
    for derivative in DERIVATIVES if subject.argnums else DERIVATIVES[:1]:
        is_gradient = derivative == "gradient"
        function = subject.scalar if is_gradient else subject.function
        traced = _attempt(lambda function: jaxmlir.trace(function)(*subject.args), function)
        for level in LEVELS:
            optimised = _attempt(_optimised, traced, level, subject.argnums if is_gradient else ())
            yield f"{derivative}.O{level}.mlir", _attempt(_with_constants, optimised)
            if lower:
                stablehlo = _attempt(lambda program: program.lower().as_text(), optimised)
                yield f"{derivative}.O{level}.stablehlo", stablehlo


def _optimised(program: jaxmlir.Program, level: int, argnums: Sequence[int]) -> jaxmlir.Program:
    """The program optimised at a level, or its gradient if there are ``argnums``."""
    if argnums:
        program = program.optimize(level, without=jaxmlir.passes.STORAGE).grad(argnums)
    return program.optimize(level)


def _with_constants(program: jaxmlir.Program) -> str:
    """The program's text, followed by digests of the arrays that it only names."""
    digests = []
    for name, array in sorted(program.constants.items()):
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            array = jax.random.key_data(array)
        array = np.asarray(array)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        digests.append(f"// constant {name}: {array.dtype}{list(array.shape)} {digest}\n")
    return program.as_text() + "".join(digests)


def _attempt(step: Callable[..., Any], given: Any, *args: Any) -> Any:
    """Applies a step to the outcome of the step before; the text of the first error stays."""
    if isinstance(given, str):
        return given
    try:
        return step(given, *args)
    except Exception as e:
        first = (str(e).strip().splitlines() or [""])[0]
        # Line numbers of source files may change without a change of the program.
        return f"{type(e).__name__}: {re.sub(r'[^ ]*[.]py:[0-9]+', 'FILE', first)}\n"


def write_one(name: str, directory: Path, sample: int, *, lower: bool = False) -> int:
    """Writes the texts of one subject; returns how many."""
    warnings.simplefilter("ignore")
    made = dict(texts(subjects(sample)[name](), lower=lower))
    for ending, text in made.items():
        path = directory / f"{name}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # Without this, memory grows with every program that JAX has traced.
    jax.clear_caches()
    return len(made)


def _in_turn(names: Sequence[str], step: Callable[[str], int], jobs: int) -> Iterator[int]:
    """Yields the results of a step for the names, run in this process or in several."""
    if jobs == 1:
        yield from map(step, names)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(step, name) for name in names]):
            yield done.result()


def write(options: argparse.Namespace) -> int:
    directory: Path = options.directory
    if not options.only and directory.exists() and any(directory.iterdir()):
        return _error(f"{directory} is not empty, and could hold texts of another run: delete it")
    names = [name for name in subjects(options.sample) if options.only in name]
    if not names:
        return _error(f"no program has '{options.only}' in its name")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / ABOUT).write_text(json.dumps({"jax": jax.__version__}) + "\n")
    step = functools.partial(
        write_one, directory=directory, sample=options.sample, lower=options.lower
    )
    steps = _in_turn(names, step, options.jobs)
    console = Console(stderr=True)
    hidden = not console.is_terminal
    written = sum(track(steps, "writing", len(names), console=console, disable=hidden))
    code = Path(jaxmlir.__file__).parent
    print(
        f"{directory}: {written} texts of {len(names)} programs, JAX {jax.__version__}, by {code}"
    )
    return 0


# --- comparing ------------------------------------------------------------------------------------


def compare(options: argparse.Namespace) -> int:
    directories = (options.before, options.after)
    if missing := [str(d) for d in directories if not (d / ABOUT).is_file()]:
        return _error(f"{missing[0]} is not a directory that `write` has written")
    versions = [json.loads((d / ABOUT).read_text())["jax"] for d in directories]
    if len(set(versions)) > 1:
        return _error(f"{versions[0]} and {versions[1]} are different versions of JAX")
    names = sorted({name for d in directories for name in _names(d) if options.only in name})
    if not names:
        return _error(f"no text has '{options.only}' in its name")
    differ = []
    for name in names:
        texts = [_read(d / name) for d in directories]
        texts[0] = renamed(texts[0], options.rename)
        if options.any_symbols:
            texts = [numbered(text) for text in texts]
        if texts[0] != texts[1]:
            differ.append((name, texts))
    for name, (before, after) in differ:
        print(name + ("" if before and after else " (only after)" if after else " (only before)"))
    for name, (before, after) in differ[: options.show]:
        if before and after:
            print("\n" + "\n".join(_diff(name, before, after, options.lines)))
    _print_counts(names, {name for name, _ in differ})
    return 1 if differ else 0


def renamed(text: str, renames: Sequence[tuple[str, str]]) -> str:
    """A text with names of passes and functions replaced, those of functions also if numbered.

    All replacements happen at once, so names can be swapped.
    """
    if not renames:
        return text
    new = dict(renames)
    words = "|".join(re.escape(old) for old in sorted(new, key=len, reverse=True))
    # JAX calls the StableHLO module of `f` by the name `jit_f`.
    begins, ends = r"(?:(?<![\w-])|(?<=@jit_))", r"(?=(?:_\d+)?(?![\w-]))"
    return re.sub(f"{begins}(?:{words}){ends}", lambda match: new[match[0]], text)


def numbered(text: str) -> str:
    """A module's text with its functions numbered by their first mention."""
    numbers: dict[str, str] = {}
    return _SYMBOL.sub(lambda m: numbers.setdefault(m[0], f"@{len(numbers)}"), text)


_SYMBOL = re.compile(r'@(?:[\w.$-]+|"[^"]*")')


def _names(directory: Path) -> list[str]:
    """The names of the files with texts in a directory."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ABOUT)
    return [str(path.relative_to(directory)) for path in files]


def _read(path: Path) -> str:
    """The text of a file; empty if there is none."""
    return path.read_text() if path.exists() else ""


def _diff(name: str, before: str, after: str, most: int) -> Iterator[str]:
    """A unified diff of at most ``most`` lines, each of a readable length."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"before/{name}", f"after/{name}", "", "", 1, ""
    )
    for i, line in enumerate(lines):
        if i == most:
            yield "... and more"
            return
        yield line if len(line) <= _WIDTH else f"{line[:_WIDTH]} ..."


_WIDTH = 240


def _print_counts(names: Sequence[str], differ: Collection[str]) -> None:
    """Prints how many texts differ in each group, derivative and level."""
    kinds = Counter(map(_kind, names))
    wrong = Counter(map(_kind, differ))
    for kind, total in sorted(kinds.items()):
        if wrong[kind]:
            print(f"{' '.join(kind)}: {wrong[kind]} of {total} differ")
    print(f"{len(differ)} of {len(names)} texts differ")


def _kind(name: str) -> tuple[str, ...]:
    """The group, derivative, level and form of a text."""
    return (name.partition("/")[0], *name.rsplit(".", 3)[1:])


# --- command line ---------------------------------------------------------------------------------


def _error(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def _rename(text: str) -> tuple[str, str]:
    """The pair in ``OLD=NEW``, for argparse."""
    old, equals, new = text.strip().partition("=")
    if not (old and equals and new):
        raise argparse.ArgumentTypeError(f"expected OLD=NEW, got '{text}'")
    return old, new


def _renames(path: str) -> list[tuple[str, str]]:
    """The pairs in a file with ``OLD=NEW`` on each line, for argparse."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as e:
        raise argparse.ArgumentTypeError(str(e)) from e
    return [_rename(line) for line in lines if line.strip()]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    only = {"metavar": "SUBSTRING", "default": "", "help": "only programs whose name contains this"}

    writing = commands.add_parser("write", help="write the texts of the current code")
    writing.set_defaults(run=write)
    writing.add_argument("directory", type=Path, metavar="DIRECTORY")
    writing.add_argument("--only", **only)
    writing.add_argument(
        "--sample",
        metavar="N",
        type=positive,
        default=300,
        help="write about N of JAX's harnesses (300)",
    )
    writing.add_argument("--jobs", metavar="N", type=positive, default=1, help="N processes (1)")
    writing.add_argument("--lower", action="store_true", help="write the StableHLO as well")

    comparing = commands.add_parser("compare", help="say which texts differ")
    comparing.set_defaults(run=compare)
    comparing.add_argument("before", type=Path, metavar="BEFORE")
    comparing.add_argument("after", type=Path, metavar="AFTER")
    comparing.add_argument("--only", **only)
    comparing.add_argument(
        "--rename",
        metavar="OLD=NEW",
        type=_rename,
        action="append",
        default=[],
        help="the word OLD in the texts before is NEW in those after; repeatable",
    )
    comparing.add_argument(
        "--renames",
        metavar="FILE",
        type=_renames,
        dest="rename",
        action="extend",
        help="a file with OLD=NEW on each line",
    )
    comparing.add_argument(
        "--any-symbols", action="store_true", help="ignore the names of functions"
    )
    comparing.add_argument(
        "--show", metavar="N", type=int, default=3, help="show the first N differences (3)"
    )
    comparing.add_argument(
        "--lines", metavar="N", type=positive, default=40, help="show at most N lines of each (40)"
    )
    options = parser.parse_args(argv)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
