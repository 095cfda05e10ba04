"""Functions and programs that are tuned: they start trials, and remember the choices.

A choice is remembered in this process, and in the cache directory for later ones.  Its key is the
program, the target, the arguments' shardings, and the versions of JAX and this package.

Nothing can be timed while JAX is tracing, for programs with effects (a further run would print
again), for a target that is not on this machine, and with several processes, each of which could
choose another form.  Level 2 is used then, and a remark says so; for effects, a warning as well.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import jax

from jaxmlir import targets
from jaxmlir._compat import core
from jaxmlir.analysis.call_graph import call_signature
from jaxmlir.caching import configuration, disk_cache
from jaxmlir.dialect.module import Module
from jaxmlir.errors import ArgumentError, Diagnostic, PipelineError
from jaxmlir.passes.remarks import check_sink
from jaxmlir.program.tuning import SECONDS, Choice, Trial
from jaxmlir.support.warn import warn
from jaxmlir.targets import Target

if TYPE_CHECKING:
    from jax.stages import Lowered

    from jaxmlir.passes.remarks import Sink

Reporter = Callable[[str], None]


def choose(
    name: str,
    make: Callable[[Choice, Sink], Any],
    arguments: tuple[Sequence[Any], Mapping[str, Any]],
    key: Callable[[], str],
    *,
    without: Collection[str] = (),
    donates: bool = False,
    seconds: float = SECONDS,
    say: Reporter,
) -> Choice:
    """The remembered choice or, if there is none, the choice of a trial.

    Args:
      make: makes the form of a choice, as for :class:`Trial`.
      key: gives a text that identifies the function and its options.
      donates: whether a call consumes arguments, so that each call needs copies.
      say: takes the findings.
    """
    args, kwargs = arguments
    cache = disk_cache()
    place = None
    if cache is not None:
        shardings = [str(getattr(leaf, "sharding", "")) for leaf in jax.tree.leaves(arguments)]
        kind = jax.local_devices()[0].device_kind
        here = [str(targets.default_target()), kind, os.cpu_count(), os.environ.get("XLA_FLAGS")]
        key_parts = [sorted(without), donates, shardings, *here]
        place = cache.key("tune", key(), *map(str, key_parts))
        cached = cache.find(place)
        choice = None if cached is None else decoded_choice(cached)
        if choice is not None:
            say(f"{choice}, chosen by an earlier trial")
            return choice

    def copies() -> Any:
        return jax.tree.map(lambda x: x.copy() if isinstance(x, jax.Array) else x, (args, kwargs))

    next_args = copies if donates else lambda: (args, kwargs)
    trial = Trial(name, make, next_args, without=without, may_repeat=not donates, seconds=seconds)
    choice = trial.run()
    for row in trial.rows():
        say(str(row))
    if cache is not None and place is not None:
        cache.keep(place, lambda: json.dumps(choice).encode())
    return choice


def decoded_choice(known: bytes) -> Choice | None:
    """A choice decoded from the cache; ``None`` if the bytes are no valid choice."""
    from jaxmlir.passes import level_pipeline

    try:
        level, without, budget = json.loads(known)
        level_pipeline(level, without)
        return Choice(level, tuple(without), None if budget is None else float(budget))
    except (ValueError, TypeError, PipelineError):
        return None


NO_ARGUMENTS = "there are no arguments to time it on"


def untimed_for(arguments: Any, target: Target | None) -> str | None:
    """The reason why a call cannot be timed; ``None`` if it can be."""
    leaves = jax.tree.leaves(arguments)
    if not core.trace_state_clean() or any(isinstance(x, core.Tracer) for x in leaves):
        return "JAX is tracing, so there is nothing to time"
    if any(isinstance(x, jax.ShapeDtypeStruct) for x in leaves):
        return NO_ARGUMENTS
    if target is not None and not targets.is_here(target):
        return f"there is no device of the target {target} here"
    if jax.process_count() > 1:
        return "several processes could choose different forms"
    return None


def has_effects(name: str, effects: Collection[Any], say: Reporter) -> bool:
    """Whether a function has effects, and must not run more often than it is called; then warns."""
    if effects:
        effect_names = ", ".join(sorted(map(str, effects)))
        reason = f"level 2: it has effects ({effect_names}), so it is not run for timing"
        warn(f"tune: {name} is compiled at {reason}")
        say(reason)
    return bool(effects)


class _UntunedSignature(Exception):
    """A function is traced for a signature, the key, for which no form was chosen."""

    def __init__(self, key: Any):
        super().__init__("no form was chosen for these arguments")
        self.key = key


class TunedFunction:
    """A function like one of ``jax.jit``, in the form that is fastest for the arguments.

    It is tuned for each signature: pytree, shapes, dtypes and static arguments.  As long as there
    is only one choice, calls go to its compiled function; later, to a function of all choices.

    Args:
      fun: the function.
      form: makes the function of a choice, to be traced; its second argument takes the remarks of
        passes.
      options: the options of ``jax.jit``.
      trace: makes the program for some arguments.
      without: passes that run in no form.
      say: takes the findings, and the reason if nothing was timed.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        form: Callable[[Choice, Sink | None], Callable[..., Any]],
        options: Mapping[str, Any],
        trace: Callable[..., Any],
        without: Collection[str],
        target: Target | None,
        say: Reporter,
    ):
        self._fun, self._form, self._options, self._trace = fun, form, options, trace
        self._level_2, self._target, self._say = Choice(2, tuple(without)), target, say
        self._lock = threading.RLock()
        self.clear_cache()

    def clear_cache(self) -> None:
        """Forgets the compiled functions and the choices of this process."""
        self._choices: dict[Any, Choice] = {}
        self._forms: dict[Choice, Callable[..., Any]] = {}
        self._calls: dict[Choice, Any] = {}
        self._tried: Any = None
        self._current = self._mixed = self._jitted(None)
        self._untimed = jax.jit(self._form(self._level_2, None), **self._options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._current(*args, **kwargs)
        except _UntunedSignature as unknown:
            key = unknown.key
        return self._call_for(key, args, kwargs)(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """JAX's ``Lowered`` stage of the chosen form; of level 2 if none was chosen."""
        try:
            return self._current.lower(*args, **kwargs)
        except _UntunedSignature:
            self._say(f"level 2: {NO_ARGUMENTS}")
            return self._untimed.lower(*args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the result."""
        return self._untimed.eval_shape(*args, **kwargs)

    def _jitted(self, only: Choice | None) -> Any:
        """The jitted function for one choice, or for all; an unknown signature is an error."""

        @functools.wraps(self._trace)
        def tuned(*args: Any, **kwargs: Any) -> Any:
            if jax.config.jax_disable_jit:
                return self._fun(*args, **kwargs)
            key = _signature(args, kwargs)
            choice = only if key == self._tried else self._choices.get(key)
            if choice is None or only not in (None, choice):
                raise _UntunedSignature(key)
            return self._forms[choice](*args, **kwargs)

        return jax.jit(tuned, **self._options)

    def _call_for(self, key: Any, args: Any, kwargs: Any) -> Any:
        """The function to call for a signature for which no form was chosen yet."""
        reason = untimed_for((args, kwargs), self._target)
        if reason is not None:
            self._say(f"level 2: {reason}")
            return self._untimed
        with self._lock:
            if key not in self._choices:
                choice = self._choice(key, args, kwargs)
                self._choices[key] = choice
                choices = {*self._choices.values()}
                self._forms = {c: self._forms.get(c) or self._form(c, None) for c in choices}
                self._calls = {c: self._calls.get(c) or self._jitted(c) for c in choices}
                self._current = self._calls[choice] if len(choices) == 1 else self._mixed
        return self._current

    def _choice(self, key: Any, args: Any, kwargs: Any) -> Choice:
        traced = jax.jit(self._fun, **self._options).trace(*args, **kwargs)
        if has_effects(self._trace.__name__, traced.jaxpr.effects, self._say):
            return self._level_2

        def make(choice: Choice, remarks: Sink) -> Any:
            self._forms[choice] = self._form(choice, remarks)
            return self._calls.setdefault(choice, self._jitted(choice))

        self._tried = key
        try:
            return choose(
                self._trace.__name__,
                make,
                (args, kwargs),
                lambda: self._trace(*args, **kwargs).as_text(),
                without=self._level_2.without,
                donates=any(name.startswith("donate_") for name in self._options),
                say=self._say,
            )
        finally:
            self._tried = None


def _signature(args: Any, kwargs: Any) -> Any:
    """The key of a trace's arguments: their types, and the values of static ones."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    leaf_keys = (core.typeof(x) if isinstance(x, core.Tracer) else x for x in leaves)
    return tree, configuration(), *leaf_keys


class Tunable(Module):
    """The method of :class:`Program` that chooses its form by measurements."""

    __slots__ = ()

    def tune(
        self, *args: Any, seconds: float = SECONDS, remarks: Sink | None = None, **kwargs: Any
    ) -> Self:
        """The program in the form that runs fastest on the device here, for some arguments.

        At most six forms are compiled, called on the arguments in turns, and timed: the program as
        it is, levels 1 and 2, and level 2 without the passes that made the most remarks.  The
        plainest form wins, unless another one is faster beyond doubt and gives the same numbers.
        The choice is remembered in the cache directory.

        Args:
          args, kwargs: the program's arguments.
          seconds: how long forms are timed; compiling them comes on top.
          remarks: takes the findings for each form, and the reason if nothing was timed, for
            example ``print``.

        Raises:
          ArgumentError: the arguments are not the program's, the time is no positive number, or
            ``remarks`` is not a function.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            raise ArgumentError(f"seconds: expected a positive number, got {seconds!r}")
        check_sink(remarks)
        program: Any = self
        code = program.__code__

        def say(text: str) -> None:
            if remarks is not None:
                place = (code.co_filename, code.co_firstlineno, 1)
                remarks(Diagnostic("remark", f"[tune] @{self.name}: {text}", *place))

        reason = untimed_for((args, kwargs), self._target)
        if reason is not None:
            say(f"level 2: {reason}")
            return program.optimize(2)
        if has_effects(f"@{self.name}", call_signature(program, self.name).effects, say):
            return program.optimize(2)
        forms: dict[Choice, Any] = {}

        def make(choice: Choice, heard: Sink | None) -> Any:
            forms[choice] = _formed(program, choice, heard)
            return forms[choice]._jitted

        arguments = (args, kwargs)
        best = choose(f"@{self.name}", make, arguments, program.as_text, seconds=seconds, say=say)
        return forms.get(best) or _formed(program, best, None)


def _formed(program: Any, choice: Choice, remarks: Sink | None) -> Any:
    """The form of a program that a choice stands for."""
    if choice.level:
        program = program.optimize(choice.level, without=choice.without, remarks=remarks)
    if choice.memory_budget is not None:
        program = program.remat(choice.memory_budget, measure=False)
    return program
