"""The steps that a program of another library goes through, each compared with JAX.

    python tools/ecosystem_steps.py PROGRAM RECORD --bare PYTHON [--steps=STEP,...]

runs in the environment of the program.  PROGRAM is a file with a function ``make``, which returns a
function with a scalar result, and its arguments.  The function is differentiated with respect to
the first argument.  The outcome of each step is a line of the file RECORD: ``passed``, ``failed:
why``, or ``n/a (JAX: why)`` if JAX has no number to compare with.  PYTHON has jax and jaxmlir only;
it runs this file with ``--load``.

Numbers are compared with JAX's numbers for the function itself.  They may differ by 64 roundings of
an array's greatest element.  Ours may be computed in another order: they may also differ by 16
times the amount by which JAX's own change if the arguments change by one rounding.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import conformance_transforms as transforms  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from conformance_steps import Mismatch, compare_closely, first_line  # noqa: E402

import jaxmlir  # noqa: E402
from benchmarks._gradients import gradient, stages  # noqa: E402

Record = dict[str, Any]

PASSED = "passed"
BATCH = 3
# JAX's numbers are also computed for this many perturbations of the arguments by a rounding.  Ours
# may be FARTHER times as far off as these, but at most by FARTHEST times the greatest element.
PERTURBATIONS = 3
FARTHER = 16.0
FARTHEST = 1e-3

# The measures at each level, and the least number of repetitions.
TIMES = {0: ("grad_transform",), 2: ("grad_transform", "grad_compile", "grad_cpu")}
REPETITIONS = 3


class JaxFails(Exception):
    """JAX gives no number for the original function."""


class Evaluation(NamedTuple):
    """A transformation of a loss by JAX, the same by the passes, and the inputs of the results."""

    of_jax: Callable[[Any], Callable[..., Any]]
    of_program: Callable[[jaxmlir.Program], Callable[..., Any]]
    inputs: Callable[[tuple[Any, ...]], tuple[Any, ...]] = lambda args: args


def _batch(args: tuple[Any, ...]) -> tuple[Any, ...]:
    def stack(x: Any) -> Any:
        return jnp.stack([x * np.asarray(1 - 0.01 * i, x.dtype) for i in range(BATCH)])

    return (jax.tree.map(stack, args[0]), *args[1:])


def _axes(args: Sequence[Any]) -> tuple[int | None, ...]:
    return (0, *(None for _ in args[1:]))


def _tangents(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Random tangents of the first argument, and zeros for the other arguments."""
    tangents, with_zeros = transforms.random_tangents(args, 1)
    n = len(jax.tree.leaves(args[0]))
    return with_zeros([t if i < n else jnp.zeros_like(t) for i, t in enumerate(tangents)])


def _second_reverse(program: jaxmlir.Program) -> Callable[..., Any]:
    forward, backward = program.grad().vjp()

    def run(args: tuple[Any, ...], cotangent: Any) -> Any:
        return backward(forward(*args)[1], cotangent)[0]

    return run


EVALUATIONS = {
    "trace": Evaluation(lambda f: f, lambda p: p),
    "grad": Evaluation(jax.grad, lambda p: p.grad()),
    "vmap(grad)": Evaluation(
        lambda f: lambda *args: jax.vmap(jax.grad(f), _axes(args))(*args),
        lambda p: lambda *args: p.grad().vmap(_axes(args), axis_size=BATCH)(*args),
        _batch,
    ),
    "jvp": Evaluation(
        lambda f: lambda args, tangents: jax.jvp(f, args, tangents),
        lambda p: p.jvp(),
        lambda args: (args, _tangents(args)),
    ),
    "hvp": Evaluation(
        lambda f: lambda args, tangents: jax.jvp(jax.grad(f), args, tangents),
        lambda p: p.grad().jvp(),
        lambda args: (args, _tangents(args)),
    ),
    "reverse twice": Evaluation(
        lambda f: lambda args, cotangent: jax.vjp(jax.grad(f), *args)[1](cotangent)[0],
        _second_reverse,
        lambda args: (args, _tangents(args)[0]),
    ),
}


class Expected(NamedTuple):
    """JAX's result, and for each of its arrays a tolerance beyond roundings."""

    inputs: Any
    result: Any
    slack: list[float]


class Subject:
    """A program's function and arguments, and JAX's results for them."""

    def __init__(self, loss: Callable[..., Any], args: Iterable[Any]) -> None:
        self.loss = loss
        self.args = jax.tree.map(_strong, tuple(args))
        self._expected: dict[str, Expected] = {}

    @functools.cached_property
    def program(self) -> jaxmlir.Program:
        return jaxmlir.trace(self.loss)(*self.args)

    def expected(self, name: str) -> Expected:
        """JAX's result in an evaluation.

        Raises:
          JaxFails: JAX raises an error, or its result has no finite number.
        """
        if name not in self._expected:
            self._expected[name] = self._by_jax(EVALUATIONS[name])
        return self._expected[name]

    def _by_jax(self, evaluation: Evaluation) -> Expected:
        try:
            inputs = evaluation.inputs(self.args)
            run = jax.jit(evaluation.of_jax(self.loss))
            result = jax.block_until_ready(run(*inputs))
        except Exception as e:
            raise JaxFails(first_line(e)) from e
        if not any(np.isfinite(leaf).any() for leaf in map(_numbers, jax.tree.leaves(result))):
            raise JaxFails("no finite number")
        return Expected(inputs, result, _slack(run, inputs, result))

    def compare(self, name: str, program: jaxmlir.Program) -> None:
        """Compares a program's result in one evaluation with JAX's result for the function."""
        expected = self.expected(name)
        run = jax.jit(EVALUATIONS[name].of_program(program))
        compare_closely(expected.result, run(*expected.inputs), expected.slack)


def _strong(x: Any) -> Any:
    """The value as an array that is not weakly typed, also if it is a Python number."""
    is_key = jax.dtypes.issubdtype(getattr(x, "dtype", None), jax.dtypes.prng_key)
    return x if is_key else jnp.asarray(np.asarray(x))


def _numbers(leaf: Any) -> np.ndarray:
    is_number = jnp.issubdtype(leaf.dtype, jnp.number)
    return np.asarray(leaf, np.complex128) if is_number else np.zeros(1)


def _slack(run: Callable[..., Any], inputs: Any, result: Any) -> list[float]:
    """The tolerances of the arrays, from how far JAX's change if inputs change by a rounding."""
    leaves = list(map(_numbers, jax.tree.leaves(result)))
    farthest = np.zeros(len(leaves))
    random = np.random.RandomState(0)
    for _ in range(PERTURBATIONS):
        try:
            other = jax.block_until_ready(
                run(*jax.tree.map(functools.partial(_perturbed, random), inputs))
            )
        except Exception:
            # The function does not accept the perturbed arguments.
            continue
        for i, (a, b) in enumerate(zip(leaves, map(_numbers, jax.tree.leaves(other)), strict=True)):
            with np.errstate(invalid="ignore"):
                distances = np.abs(a - b)
            here = np.isfinite(distances)
            farthest[i] = max(farthest[i], np.max(distances, initial=0, where=here))
    sizes = [np.max(np.abs(a), initial=0, where=np.isfinite(a)) for a in leaves]
    return list(np.minimum(FARTHER * farthest, FARTHEST * max(sizes)))


def _perturbed(random: np.random.RandomState, x: Any) -> Any:
    if not jnp.issubdtype(x.dtype, jnp.inexact) or x.dtype == jax.dtypes.float0:
        return x
    factors = 1 + float(jnp.finfo(x.dtype).eps) * random.choice([-1.0, 0.0, 1.0], x.shape)
    return np.asarray(x) * factors.astype(x.dtype)


# --- steps ----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Scratch:
    """The folder that an artifact is written to, and the Python that reads it."""

    folder: Path
    bare_python: str

    @property
    def artifact(self) -> Path:
        return self.folder / "program.jaxmlir"

    @property
    def numbers(self) -> Path:
        return self.folder / "numbers.pickle"


def _evaluate(name: str) -> Callable[[Subject, Scratch], str]:
    def step(subject: Subject, scratch: Scratch) -> str:
        subject.compare(name, subject.program)
        return PASSED

    return step


def text(subject: Subject, scratch: Scratch) -> str:
    """Printing, parsing and printing again gives the identical text, which computes JAX's value."""
    printed = subject.program.as_text()
    program = jaxmlir.parse(printed, constants=subject.program.constants)
    if program.as_text() != printed:
        raise Mismatch("printed again, the text differs")
    subject.compare("trace", program)
    return PASSED


# Options for saving a program, by the note in the outcome; the first that succeed are used.
SAVED_AS: dict[str, dict[str, Any]] = {
    "": {},
    " (as_flat)": {"as_flat": True},
    " (drop)": {"effects": "drop"},
    " (as_flat, drop)": {"as_flat": True, "effects": "drop"},
}


def save(subject: Subject, scratch: Scratch) -> str:
    """Writes the program to a file: as a program of leaves if its pytree types are local to this
    process, and without run-time checks and prints if these are Python functions."""
    errors = []
    for note, options in SAVED_AS.items():
        try:
            subject.program.save(scratch.artifact, **options)
        except jaxmlir.errors.ArtifactError as error:
            errors.append(error)
        else:
            return f"{PASSED}{note}"
    raise errors[0]


def load(subject: Subject, scratch: Scratch) -> str:
    """A process without the library loads the file; value and gradient equal JAX's."""
    if not scratch.artifact.exists():
        save(subject, scratch)
    expected = {}
    for name in LOADED:
        try:
            expected[name] = _as_numpy(subject.expected(name))
        except JaxFails:
            continue
    n = len(jax.tree.leaves(subject.args[0]))
    scratch.numbers.write_bytes(pickle.dumps((n, expected)))
    process = subprocess.run(
        [scratch.bare_python, "-P", __file__, "--load", str(scratch.folder)],
        env={**os.environ, "JAX_ENABLE_X64": str(int(jax.config.jax_enable_x64))},
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise Mismatch((process.stderr.strip().splitlines() or ["no output"])[-1])
    return process.stdout.strip()


# The evaluations of a loaded program.
LOADED = ("trace", "grad")


def load_only(folder: Path) -> str:
    """Loads and checks the program, in the process without the library."""
    scratch = Scratch(folder, sys.executable)
    n, expected = pickle.loads(scratch.numbers.read_bytes())
    outcome = PASSED
    try:
        program = jaxmlir.load(scratch.artifact)
    except jaxmlir.errors.ArtifactError as first:
        try:
            program = jaxmlir.load(scratch.artifact, as_flat=True)
        except jaxmlir.errors.ArtifactError:
            raise first from None
        outcome = f"{PASSED} (as_flat)"
    for name, (inputs, result, slack) in expected.items():
        args, _ = jax.tree.unflatten(program.in_tree, list(map(_of_numpy, inputs)))
        flat = len(args) == len(inputs) and n > 0
        if name == "grad":
            run = program.grad(tuple(range(n))) if flat else program.grad()
        else:
            run = program
        got = jax.tree.leaves(run(*args))
        compare_closely(list(map(_of_numpy, result)), got, slack)
    return outcome


def _as_numpy(expected: Expected) -> tuple[list[Any], list[Any], list[float]]:
    def leaf(x: Any) -> Any:
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return str(jax.random.key_impl(x)), np.asarray(jax.random.key_data(x))
        return np.asarray(x)

    inputs, result = jax.tree.leaves(expected.inputs), jax.tree.leaves(expected.result)
    return list(map(leaf, inputs)), list(map(leaf, result)), expected.slack


def _of_numpy(x: Any) -> Any:
    if isinstance(x, tuple):
        return jax.random.wrap_key_data(jnp.asarray(x[1]), impl=x[0])
    return jnp.asarray(x)


def optimized(subject: Subject, scratch: Scratch) -> str:
    """Compares the value and the gradient at ``-O2``."""
    subject.compare("trace", subject.program.optimize(2))
    expected = subject.expected("grad")
    got = gradient(subject.program, 2)(*expected.inputs)
    compare_closely(expected.result, got, expected.slack)
    return PASSED


def times(subject: Subject, scratch: Scratch) -> dict[str, Any]:
    """Seconds that JAX and jaxmlir take for the gradient.

    The result is ``{measure: [JAX's, ours]}``, the least of several turns, because other processes
    can only make a turn slower.  Before either side transforms the program, the caches of JAX and
    jaxmlir are cleared: it makes the derivatives of the library's jitted functions, and finds none
    that the other side has made.
    """
    from benchmarks._comparisons import Case

    # Pass lists of leaves: some pytree classes cannot hold the abstract values that JAX puts there.
    leaves, trees = zip(*map(jax.tree.flatten, subject.args), strict=True)

    def make() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        def loss(*args: Any) -> Any:
            return subject.loss(*map(jax.tree.unflatten, trees, args))

        return loss, leaves

    subject.expected("grad")
    case = Case("loss", make, before_transforming=jax.clear_caches)
    found: dict[str, Any] = {}
    for level, wanted in TIMES.items():
        for name, sides in stages(case, REPETITIONS, wanted, level):
            if sides.error:
                raise Mismatch(f"{name} at level {level}: {sides.error}")
            found[f"{name}_O{level}"] = [sides.jax.min, sides.jaxmlir.min]
            if sides.note:
                found[f"{name}_O{level}"].append(sides.note)
    return found


STEPS: dict[str, Callable[[Subject, Scratch], Any]] = {
    "trace": _evaluate("trace"),
    "text": text,
    "save": save,
    "load": load,
    **{name: _evaluate(name) for name in EVALUATIONS if name != "trace"},
    "-O2": optimized,
    "times": times,
}


def check(
    subject: Subject, steps: Sequence[str], scratch: Scratch, write: Callable[..., None]
) -> None:
    """Takes a subject through steps and writes each outcome at once."""
    try:
        subject.expected("trace")
    except JaxFails as e:
        return write(excluded=f"jax.jit fails: {e}")
    for step in steps:
        write(start=step)
        try:
            outcome = STEPS[step](subject, scratch)
        except JaxFails as e:
            outcome = f"n/a (JAX: {e})"
        except Exception as e:
            outcome = f"failed: {first_line(e)}"
            (scratch.folder / f"{step}.log").write_text(traceback.format_exc())
        write(step=step, outcome=outcome)


def subject_of(path: Path) -> Subject:
    """The subject of a program's file."""
    spec = importlib.util.spec_from_file_location("ecosystem_program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Pickle and dataclasses look classes up in `sys.modules`.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return Subject(*module.make())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path, nargs="?")
    parser.add_argument("record", type=Path, nargs="?")
    parser.add_argument("--steps", type=lambda text: text.split(","), default=list(STEPS))
    parser.add_argument("--bare", default=sys.executable)
    parser.add_argument("--load", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.load:
        try:
            return print(load_only(options.load))
        except Exception as e:
            sys.exit(first_line(e))

    def write(**fields: Any) -> None:
        with options.record.open("a") as file:
            file.write(json.dumps(fields) + "\n")

    try:
        subject = subject_of(options.program)
    except Exception as e:
        traceback.print_exc()
        return write(excluded=f"the program cannot be made: {first_line(e)}")
    check(subject, options.steps, Scratch(options.record.parent, options.bare), write)


if __name__ == "__main__":
    main()
