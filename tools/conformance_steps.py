"""The conformance steps that one function goes through, each compared with JAX.

A ``Case`` is a function and its arguments.  A step is a function of a case that returns how the
case passed, or raises.  To add a step, write it and add it to ``STEPS``.

Compiling is expensive, so a step that would run a program first compares the program's lowered text
with that of ``jax.jit``.  If both are the same program (see ``canonical``), so are the results, and
the step passes as ``SAME_TEXT`` without running; cases with ``always_run=True`` run nevertheless.

The raised program is mostly the same as the traced one.  Then its derivatives and batches are those
already checked in the columns ``jvp``, ``vjp`` and ``vmap``, and pass as ``SAME_TEXT``, too.

``jax.jit`` may fuse, and so round differently than evaluation op by op.  If the results of ``eval``
differ from those of ``jax.jit``, they must equal JAX's own evaluation op by op
(``jax.disable_jit``) bit for bit, and the step passes as ``OP_BY_OP``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import conformance_transforms as transforms
import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

import jaxmlir
from jaxmlir._compat import core
from jaxmlir.dialect.ir import TREES
from jaxmlir.errors import JaxmlirError
from jaxmlir.optimize.simplify.canonicalize import canonicalize
from jaxmlir.passes import level_pipeline

PASSED = "passed"
SAME_TEXT = "same text"
REFUSED = "refused, as by JAX"
OP_BY_OP = "op by op"
LEFT_OUT = "left out: "


class Mismatch(AssertionError):
    """Something differs from what JAX gives."""


class JaxFails(Exception):
    """``jax.jit`` itself does not run the function, so there is nothing to compare with."""


@dataclass
class Case:
    """A function with its arguments; the programs and results to compare are computed lazily."""

    function: Callable[..., Any]
    args: Sequence[Any]
    always_run: bool = False

    @functools.cached_property
    def jitted(self) -> Any:
        return jax.jit(self.function)

    @functools.cached_property
    def expected_text(self) -> str:
        """The canonical text that ``jax.jit`` lowers to."""
        try:
            return canonical(self.jitted.lower(*self.args))
        except Exception as e:
            raise JaxFails(first_line(e)) from e

    @functools.cached_property
    def expected(self) -> Any:
        """The results of ``jax.jit``."""
        try:
            return jax.block_until_ready(self.jitted(*self.args))
        except Exception as e:
            raise JaxFails(first_line(e)) from e

    @functools.cached_property
    def imported(self) -> jaxmlir.Program:
        return jaxmlir.trace(self.function)(*self.args)

    @functools.cached_property
    def program(self) -> jaxmlir.Program:
        """The program read back from its text; every later step works on it."""
        imported = self.imported
        return jaxmlir.parse(imported.as_text(), constants=imported.constants, verify=False)

    @functools.cached_property
    def flat_args(self) -> list[Any]:
        """The leaves of the arguments, with random keys as integers, as they are in StableHLO."""
        return [_data(jax.numpy.asarray(x)) for x in jax.tree.leaves(tuple(self.args))]

    def flat_function(self, *leaves: Any) -> Any:
        """The function of :attr:`flat_args`; returns its only result, or a tuple of all."""
        old, tree = jax.tree.flatten(tuple(self.args))
        keys = jax.dtypes.prng_key
        leaves = [
            jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(before))
            if jax.dtypes.issubdtype(getattr(before, "dtype", np.float32), keys)
            else leaf
            for before, leaf in zip(old, leaves, strict=True)
        ]
        results = jax.tree.leaves(self.function(*jax.tree.unflatten(tree, leaves)))
        return _data(results[0]) if len(results) == 1 else tuple(map(_data, results))

    @functools.cached_property
    def raised(self) -> jaxmlir.Program:
        """The program raised from JAX's own StableHLO."""
        lowered = jax.jit(self.flat_function, keep_unused=True).lower(*self.flat_args)
        return jaxmlir.from_stablehlo(lowered.compiler_ir())

    @functools.cached_property
    def comes_back(self) -> bool:
        """Whether the raised program equals the traced one; then so do its derivatives."""
        traced = jaxmlir.trace(self.flat_function)(*self.flat_args)
        return _plain_text(self.raised) == _plain_text(traced)

    @functools.cached_property
    def lowered(self) -> Any:
        return self.program.lower()

    @functools.cached_property
    def exported(self) -> Any:
        return self.program.to_jaxpr()


def import_(case: Case) -> str:
    """The jaxpr becomes a module, with JAX's types at both ends."""
    shapes = jax.eval_shape(case.function, *case.args)
    have = [(a.shape, a.dtype) for a in case.imported.out_avals if hasattr(a, "shape")]
    want = [(s.shape, s.dtype) for s in jax.tree.leaves(shapes)]
    if have != want:
        raise Mismatch(f"the program's results are {have}, the function's {want}")
    return PASSED


def verify(case: Case) -> str:
    """The verifier accepts the module."""
    case.imported.verify()
    return PASSED


def text(case: Case) -> str:
    """Print, parse, print: the identical text, with and without locations."""
    for debug_info in (False, True):
        first = case.imported.as_text(debug_info=debug_info)
        parsed = jaxmlir.parse(first, constants=case.imported.constants, verify=False)
        second = parsed.as_text(debug_info=debug_info)
        if first != second:
            raise Mismatch(f"printed again, the text differs: {_first_difference(first, second)}")
    return PASSED


def export(case: Case) -> str:
    """The exported jaxpr is well formed, and JAX evaluates it to the same results."""
    core.check_jaxpr(getattr(case.exported, "jaxpr", case.exported))
    flat = jax.tree.leaves(case.args)
    jitted = jax.jit(core.jaxpr_as_fun(case.exported))

    def run() -> Any:
        return jax.tree.unflatten(case.imported.out_tree, jitted(*flat))

    return _same(case, canonical(jitted.lower(*flat)), run)


def lower(case: Case) -> str:
    """The program lowers to StableHLO."""
    return PASSED if canonical(case.lowered) != case.expected_text else SAME_TEXT


def run(case: Case) -> str:
    """Calling the program gives ``jax.jit``'s results, bit for bit."""
    return _same(case, canonical(case.lowered), lambda: case.program(*case.args))


def eval_(case: Case) -> str:
    """Evaluating the program op by op gives the results of ``jax.jit`` bit for bit, or those of
    JAX's own evaluation op by op."""
    got = case.program.eval(*case.args)
    try:
        compare(case.expected, got)
    except Mismatch:
        with jax.disable_jit():
            eager = case.function(*case.args)
        compare(eager, got)
        return OP_BY_OP
    return PASSED


def clean(case: Case) -> str:
    """``-O1`` leaves a valid program with the same results; canonicalization ends in 3 walks."""
    program = case.program.clone()
    walks = canonicalize(program)
    if walks > 3:
        raise Mismatch(f"canonicalization took {walks} walks")
    program = program.run_passes(level_pipeline(1))
    return _same(case, canonical(program.lower()), lambda: program(*case.args))


def jvp(case: Case) -> str:
    """The values and tangents of ``jax.jvp``."""
    return _transformed(case, transforms.jvp)


def vjp(case: Case) -> str:
    """The values and cotangents of ``jax.vjp``."""
    return _transformed(case, transforms.vjp)


def vmap(case: Case) -> str:
    """The results of ``jax.vmap``, over each operand and over all."""
    return _transformed(case, transforms.vmap)


def raise_(case: Case) -> str:
    """The program raised from JAX's own StableHLO lowers to the same text, or gives the results of
    ``jax.jit`` bit for bit."""
    flat = case.flat_args
    expected = canonical(jax.jit(case.flat_function, keep_unused=True).lower(*flat))
    same = canonical(case.raised.lower(keep_unused=True)) == expected
    if not same or case.always_run:
        want = jax.tree.leaves(case.expected)
        compare_bits(want, jax.tree.leaves(case.raised(*flat)))
    return SAME_TEXT if same else PASSED


def raise_jvp(case: Case) -> str:
    """The raised program's values and tangents are those of ``jax.jvp``."""
    return _raised_and_differentiated(case, transforms.jvp)


def raise_vjp(case: Case) -> str:
    """The raised program's values and cotangents are those of ``jax.vjp``."""
    return _raised_and_differentiated(case, transforms.vjp)


def raise_vmap(case: Case) -> str:
    """The raised program's results, batched, are those of ``jax.vmap``."""
    return _raised_and_transformed(case, transforms.vmap)


def _raised_and_differentiated(case: Case, pairs: Callable[..., Iterator[transforms.Pair]]) -> str:
    if reason := _lost_rule(case.imported):
        return LEFT_OUT + reason
    try:
        return _raised_and_transformed(case, pairs)
    except Mismatch:
        args = case.flat_args
        value, tangents = case.flat_function(*args), map(_zeros, args)
        try:
            compare_closely(value, jax.jvp(case.flat_function, args, [*tangents])[0])
        except Mismatch:
            return f"{LEFT_OUT}jax.jvp gives another value than the function itself"
        raise


def _zeros(x: Any) -> Any:
    is_real = jax.numpy.issubdtype(x.dtype, jax.numpy.inexact)
    return np.zeros(x.shape, x.dtype if is_real else jax.dtypes.float0)


def _raised_and_transformed(case: Case, pairs: Callable[..., Iterator[transforms.Pair]]) -> str:
    if case.comes_back and not case.always_run:
        return SAME_TEXT
    args = case.flat_args
    function = _without_promises(case.flat_function, args)
    outcomes = {_agree(pair, case.always_run) for pair in pairs(function, case.raised, args)}
    return next(o for o in (PASSED, SAME_TEXT, REFUSED) if o in outcomes)


def _without_promises(function: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """The function with the out-of-bounds semantics of StableHLO: gathers read the nearest window,
    scatters write nothing.

    Some harnesses promise that indices are in bounds, and break the promise, which StableHLO cannot
    express.  For these, JAX's derivative isn't the derivative of the computed function.
    """
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    modes = jax.lax.GatherScatterMode

    def kept(eqn: Any) -> Any:
        if eqn.params.get("mode") != modes.PROMISE_IN_BOUNDS:
            return eqn
        mode = modes.CLIP if eqn.primitive.name == "gather" else modes.FILL_OR_DROP
        return eqn.replace(params={**eqn.params, "mode": mode})

    eqns = list(map(kept, closed.jaxpr.eqns))
    if eqns == closed.jaxpr.eqns:
        return function
    flat = jaxpr_as_fun(closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns)))
    tree = jax.tree.structure(shape)
    return lambda *leaves: jax.tree.unflatten(tree, flat(*leaves))


def _plain_text(program: jaxmlir.Program) -> str:
    """A program's text without names, calls, duplicates, weak types and pytrees."""
    program = program.run_passes("jaxpr-inline,jaxpr-canonicalize,jaxpr-cse")
    for function in program.functions.values():
        for tree in TREES:
            if tree in function.attributes:
                del function.attributes[tree]
    symbols: dict[str, str] = {}
    number = lambda m: symbols.setdefault(m[0], f"@f{len(symbols)}")  # noqa: E731
    return re.sub(r"@\w+", number, str(program)).replace(", {weak_type}", "")


_CUSTOM_RULE = "StableHLO has no custom derivative rules"

RULES_THAT_ARE_LOST = {
    "custom_jvp_call_jaxpr": _CUSTOM_RULE,
    "custom_vjp_call_jaxpr": _CUSTOM_RULE,
    "custom_linear_solve": _CUSTOM_RULE,
    "stop_gradient": "stop_gradient is lowered to nothing",
    "select_and_gather_add": "it becomes a windowed reduction of pairs, which JAX cannot transpose",
}
"""By the names of ops: why derivatives of what they are in StableHLO are other ones, or none."""


def _lost_rule(program: jaxmlir.Program) -> str | None:
    """The reason why JAX's derivatives of a program aren't those of its StableHLO, if any."""
    names = {name.removeprefix("jaxpr.") for name in primitives_of(program)}
    if names & {"max", "min"} and any(
        jax.numpy.issubdtype(aval.dtype, np.complexfloating) for aval in program.out_avals
    ):
        return "JAX has a special rule for the maximum of complex numbers, or none"
    reasons = (RULES_THAT_ARE_LOST[name] for name in sorted(names) if name in RULES_THAT_ARE_LOST)
    return next(reasons, None)


def primitives_of(program: jaxmlir.Program) -> set[str]:
    """The names of the ops at the top level of all functions of a program."""
    return {op.name for f in program.functions.values() for op in f.entry_block.operations}


def compare_bits(expected: Sequence[Any], got: Sequence[Any]) -> None:
    """Compares arrays bit for bit, without what StableHLO does not express: weak types and random
    key types.

    Raises:
      Mismatch: names the result and how many of its elements differ.
    """
    if len(expected) != len(got):
        raise Mismatch(f"{len(got)} results, JAX's {len(expected)}")
    for k, (a, b) in enumerate(zip(expected, got, strict=True)):
        pair = [jax.numpy.asarray(_data(x), dtype=_data(x).dtype) for x in (a, b)]
        compare_arrays(*map(_strong, pair), f"result[{k}]" if len(expected) > 1 else "result")


def _data(value: Any) -> Any:
    is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(value) if is_key else value


def _strong(value: Any) -> Any:
    return jax.lax.convert_element_type(value, value.dtype)


def _transformed(case: Case, pairs: Callable[..., Iterator[transforms.Pair]]) -> str:
    outcomes = {
        _agree(pair, case.always_run) for pair in pairs(case.function, case.program, case.args)
    }
    return next(o for o in (PASSED, SAME_TEXT, REFUSED) if o in outcomes)


def _agree(pair: transforms.Pair, always_run: bool) -> str:
    """Checks that ours lowers to JAX's text or computes the same up to rounding, or both refuse."""
    theirs, ours = jax.jit(pair.theirs), jax.jit(pair.ours)
    try:
        wanted = theirs.lower(*pair.args)
        expected = canonical(wanted)
    except Exception as e:
        try:
            ours.lower(*pair.args)
        except JaxmlirError as own:
            if "'jaxpr." not in str(own):
                raise Mismatch(f"{pair.name}: JAX refuses; our error names no op: {own}") from e
        return REFUSED
    try:
        given = ours.lower(*pair.args)
        got = canonical(given)
        if got != expected or always_run:
            # Calling the jitted functions would lower them once more.
            compare_closely(wanted.compile()(*pair.args), given.compile()(*pair.args))
    except Exception as e:
        raise Mismatch(f"{pair.name}: {first_line(e)}") from e
    return SAME_TEXT if got == expected else PASSED


STEPS: dict[str, Callable[[Case], str]] = {
    "import": import_,
    "verify": verify,
    "text": text,
    "export": export,
    "lower": lower,
    "run": run,
    "eval": eval_,
    "clean": clean,
    "jvp": jvp,
    "vjp": vjp,
    "vmap": vmap,
    "raise": raise_,
    "raise jvp": raise_jvp,
    "raise vjp": raise_vjp,
    "raise vmap": raise_vmap,
}


# The steps that build several programs for each harness.
TRANSFORMATIONS = ("jvp", "vjp", "vmap", "raise jvp", "raise vjp", "raise vmap")


def check(case: Case, steps: Sequence[str] = tuple(STEPS)) -> dict[str, Any]:
    """Takes a case through the steps.

    Returns:
      ``{"excluded": why}`` where ``jax.jit`` itself does not run the function, else
      ``{"steps": {step: "passed", "same text" or "failed: why"}}``.
    """
    results = {}
    try:
        # Lower before the first step: a function that JAX cannot lower cannot be imported either.
        _ = case.expected_text
        for step in steps:
            try:
                results[step] = STEPS[step](case)
            except JaxFails:
                raise
            except Exception as e:
                results[step] = f"failed: {first_line(e)}"
    except JaxFails as e:
        return {"excluded": f"jax.jit fails: {e}"}
    return {"steps": results}


def first_line(error: Exception) -> str:
    """The first line of an error, with its class unless it is a mismatch."""
    lines = str(error).strip().splitlines() or [""]
    kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
    return (kind + lines[0])[:400]


def _same(case: Case, lowered_text: str, run: Callable[[], Any]) -> str:
    same = lowered_text == case.expected_text
    if not same or case.always_run:
        compare(case.expected, run())
    return SAME_TEXT if same else PASSED


# --- comparing results ----------------------------------------------------------------------------


def compare(expected: Any, got: Any) -> None:
    """Compares two pytrees of arrays bit for bit; a NaN equals a NaN.

    Raises:
      Mismatch: names the result and how many of its elements differ.
    """
    want, got_structure = jax.tree.structure(expected), jax.tree.structure(got)
    if want != got_structure:
        raise Mismatch(f"the result is the pytree {got_structure}, JAX's {want}")
    leaves = jax.tree_util.tree_flatten_with_path(expected)[0]
    for (path, a), b in zip(leaves, jax.tree.leaves(got), strict=True):
        compare_arrays(a, b, f"result{jax.tree_util.keystr(path)}")


def compare_arrays(expected: Any, got: Any, name: str) -> None:
    """Compares two arrays bit for bit; see :func:`compare`."""
    a, b = core.typeof(expected), core.typeof(got)
    if a != b or getattr(a, "weak_type", None) != getattr(b, "weak_type", None):
        raise Mismatch(f"{name} is {_long(b)}, JAX's {_long(a)}")
    x, y = _components(expected), _components(got)
    # All NaNs count as equal; all other numbers are compared by their bytes.
    if x.dtype.kind not in "biu" and "int" not in x.dtype.name:
        nan = np.isnan(x) & np.isnan(y)
        x, y = np.where(nan, np.zeros_like(x), x), np.where(nan, np.zeros_like(y), y)
    if x.tobytes() != y.tobytes():
        shape = (-1, x.itemsize)
        bits_x = np.frombuffer(x.tobytes(), np.uint8).reshape(shape)
        bits_y = np.frombuffer(y.tobytes(), np.uint8).reshape(shape)
        differ = (bits_x != bits_y).any(axis=1)
        i = int(np.argmax(differ))
        raise Mismatch(
            f"{name}: {differ.sum()} of {len(differ)} elements differ, the first at {i}: "
            f"{y.reshape(-1)[i]}, JAX's {x.reshape(-1)[i]}"
        )


# How many roundings results may be apart: another fusion may round differently in each operation.
ROUNDINGS = 64


def compare_closely(expected: Any, got: Any, slack: Sequence[float] | None = None) -> None:
    """Compares two pytrees of arrays, up to ``ROUNDINGS`` of an array's largest number.

    Args:
      expected, got: JAX's arrays, and ours.
      slack: for each array a tolerance of its numbers, which counts if it is the larger one.

    Raises:
      Mismatch: says where, and by how much.
    """
    if jax.tree.structure(expected) != jax.tree.structure(got):
        compare(expected, got)
    leaves = jax.tree_util.tree_flatten_with_path(expected)[0]
    allowed = [0.0] * len(leaves) if slack is None else slack
    for (path, a), b, least_bound in zip(leaves, jax.tree.leaves(got), allowed, strict=True):
        name = f"result{jax.tree_util.keystr(path)}"
        if not jax.numpy.issubdtype(a.dtype, jax.numpy.inexact):
            compare_arrays(a, b, name)
            continue
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            raise Mismatch(f"{name} is {_long(core.typeof(b))}, JAX's {_long(core.typeof(a))}")
        eps = float(jax.numpy.finfo(a.dtype).eps)
        x, y = _components(a).astype(np.float64), _components(b).astype(np.float64)
        finite = np.isfinite(x) & np.isfinite(y)
        bound = ROUNDINGS * eps * np.max(np.abs(x), initial=0.0, where=finite)
        bound = max(bound, least_bound)
        large = float(jax.numpy.finfo(a.dtype).max) * max(1 - ROUNDINGS * eps, 0.5)
        apart = np.abs(np.where(finite, x - y, 0.0)) > bound
        wrong = np.where(finite, apart, ~_same_kind(x, y, large))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise Mismatch(
                f"{name}: {wrong.sum()} of {wrong.size} elements differ by more than {bound:.3g}, "
                f"the first at {i}: {y.reshape(-1)[i]}, JAX's {x.reshape(-1)[i]}"
            )


def _same_kind(x: np.ndarray, y: np.ndarray, large: float) -> np.ndarray:
    """Where both arrays have a NaN, or the same infinity; a number that is almost large enough to
    overflow counts as infinite."""
    overflow = (np.abs(x) >= large) & (np.abs(y) >= large) & (np.sign(x) == np.sign(y))
    return (np.isnan(x) & np.isnan(y)) | overflow


def _components(value: Any) -> np.ndarray:
    """The real numbers in an array: both parts of complex numbers, the data of random keys, nothing
    for float0."""
    if value.dtype == jax.dtypes.float0:
        return np.zeros(0, np.uint8)
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.ascontiguousarray(value)
    return array.reshape(-1).view(array.real.dtype) if array.dtype.kind == "c" else array


def _long(aval: Any) -> str:
    return f"{aval}, weakly typed" if getattr(aval, "weak_type", False) else str(aval)


# --- comparing lowered programs -------------------------------------------------------------------

_SYMBOL = re.compile(r'@(?:[\w.$-]+|"[^"]*")')
_VALUE = re.compile(r"%[\w$.-]+")
_DEFINITION = re.compile(
    r"\s*(?P<name>%[\w$.-]+)(?::\d+)? = (?:stablehlo\.constant (?P<constant>.*))?"
)
# The position of a result in the caller's pytree; compilation ignores it.
_RESULT_INFO = re.compile(r'jax\.result_info = "[^"]*"(?:, )?')


def canonical(lowered: Any) -> str:
    """A lowered module's text without details that do not affect compilation.

    These are locations, the names of functions and values, and whether uses of equal constants
    share one op.  Functions are sorted by the first reference to them.
    """
    head, *rest = re.split(r"(?m)^(?=  func\.func )", lowered.as_text())
    rest[-1] = rest[-1].removesuffix("}\n")
    functions = {_SYMBOL.search(source)[0]: source for source in rest}
    numbers = {"@main": "@0"}
    order = ["@main"]
    for name in order:
        for symbol in _SYMBOL.findall(functions[name]):
            if symbol in functions and symbol not in numbers:
                numbers[symbol] = f"@{len(numbers)}"
                order.append(symbol)
    body = "".join(_renamed(functions[name]) for name in order)
    body = _SYMBOL.sub(lambda match: numbers.get(match[0], match[0]), body)
    body = _RESULT_INFO.sub("", body).replace(" {}", "")
    return _SYMBOL.sub("@module", head, count=1) + body


def _renamed(function: str) -> str:
    """A function's text with its values numbered, and constants inlined at their uses."""
    values: dict[str, str] = {}
    count = 0

    def rename(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] not in values:
            values[match[0]] = f"%{count}"
            count += 1
        return values[match[0]]

    lines = []
    for line in function.splitlines():
        defined = _DEFINITION.match(line)
        if defined:
            # Sibling regions may use one name for different values.
            values.pop(defined["name"], None)
            if defined["constant"]:
                values[defined["name"]] = f"({defined['constant']})"
                continue
        lines.append(_VALUE.sub(rename, line))
    return "\n".join([*lines, ""])


def _first_difference(first: str, second: str) -> str:
    pairs = zip(first.splitlines(), second.splitlines(), strict=False)
    a, b = next(((a, b) for a, b in pairs if a != b), ("", "a different number of lines"))
    return f"{a.strip()[:120]} became {b.strip()[:120]}"
