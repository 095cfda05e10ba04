"""``jaxmlir-run``: compile a module's function with PJRT, call it, print or save its results."""

from __future__ import annotations

import functools
import operator
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir.cli import command_line
from jaxmlir.cli.command_line import CommandLine, Flag, UsageError
from jaxmlir.dialect.ir import (
    context,
    func,
    functions,
    inner_ops,
    ir,
    is_private,
    module_bytecode,
    rename_symbol,
    scope,
)
from jaxmlir.errors import Diagnostic, LoweringError, count, nearest

if TYPE_CHECKING:
    from jaxmlir.program.program import Program

FLAGS = (
    command_line.HELP,
    command_line.VERSION,
    Flag(
        "o",
        "Save the results to this .npz file (.npy for one result) instead of printing",
        "filename",
    ),
    Flag("entry", "The function to run (default: the public one)", "name"),
    Flag("platform", "The PJRT platform: cpu, cuda, rocm, tpu (default: JAX's)", "platform"),
    Flag(
        "args",
        "The arguments as literals, e.g. '1.0, [1,2,3]', with \"x.npy\" for the contents of a file",
        "literals",
    ),
    Flag(
        "input",
        "Take arguments from this .npy, .npz or .safetensors file: by name if its arrays are named "
        "after arguments (p.w.0 for p['w'][0]), else in their order; may be repeated",
        "filename",
        repeats=True,
    ),
    Flag(
        "random-args",
        "Use random values for missing arguments: standard normal, or 0 to 9 for integers",
        "seed",
        optional=True,
    ),
    command_line.ALLOW,
    command_line.LOAD,
    command_line.COLOR,
    command_line.COMPLETION,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; the exit status is 1 if anything went wrong."""
    return command_line.run_tool("jaxmlir-run", _main, argv)


def _main(argv: Sequence[str]) -> None:
    arguments = command_line.request("jaxmlir-run", argv, FLAGS, _help)
    if arguments is None:
        return
    platform = arguments.get("platform")
    if platform:
        # JAX reads this once, when it first looks for devices.
        os.environ["JAX_PLATFORMS"] = platform
        _check_platform(platform)
    command_line.load_modules(arguments)
    path = command_line.single_input(arguments)
    with command_line.reporting(command_line.display_path(path)):
        _run(path, arguments)


def _check_platform(platform: str) -> None:
    """Starts JAX on a platform; a usage error if there is none here."""
    import jax

    try:
        jax.devices()
    except (RuntimeError, AssertionError) as e:
        why = str(e) or "JAX was installed without this platform"
        if platform == "gpu":
            # JAX's reason is about the last platform that it looks for.
            why = "JAX finds neither 'cuda' nor 'rocm' here"
        raise UsageError(f"--platform: cannot run on '{platform}': {why}") from None


def _help() -> str:
    return command_line.help_text(
        "runs a function of a jaxpr or StableHLO module",
        "jaxmlir-run [options] [file]    (stdin where there is no file, or it is '-')",
        FLAGS,
        {
            "EXAMPLES": "  jaxmlir-run program.mlir --args '1.0, [1, 2, 3]'\n"
            "  jaxmlir-run program.mlir --entry=step --input state.npz --random-args=7 -o out.npz\n"
            "  jaxmlir-translate --import-python jax.nn:silu --args 'f32[3]'"
            " | jaxmlir-run --args '[0, 0.5, 1]'"
        },
    )


def _run(path: str, arguments: CommandLine) -> None:
    from jaxmlir.analysis.call_graph import call_signature
    from jaxmlir.cli.module_io import read_program
    from jaxmlir.dialect.types import widths_of

    program = read_program(path, arguments.names(command_line.ALLOW.name))
    entry = _select_entry(program, arguments.get("entry"))
    program.verify()
    _reject_foreign_ops(program)
    signature = call_signature(program, entry)
    # The index of the platform is not an argument of the user's.
    platform = _platform_argument(program, entry)
    operands = [aval for i, aval in enumerate(signature.operands) if i != platform]
    with widths_of((*operands, *signature.results)):
        names = _argument_names(program.function(entry), platform)
        values = _EntryArguments(entry, operands, names).read(arguments)
        results = _call(program, entry, values)
    output = arguments.get("o")
    if output is None or output == "-":
        _print(results)
    else:
        _save(output, results)


def _call(program: Program, entry: str, values: Sequence[Any]) -> Any:
    """The results, in the pytree that the module describes; a usage error if XLA fails."""
    import jax

    from jaxmlir.runtime import program_primitive
    from jaxmlir.runtime.placement import default_mesh, mesh_wanted

    if program.is_symbolic:
        args, kwargs = jax.tree.unflatten(program.in_tree, values)
        program = program.specialize(*args, **kwargs)

    def run(*args: Any) -> Any:
        if _is_stablehlo(program):
            return _stablehlo_primitive().bind(*args, program=program, entry=entry)
        return program_primitive.call(program, entry, list(args))

    try:
        with mesh_wanted(entry), default_mesh(program, values):
            results = jax.jit(run)(*values)
    except jax.errors.JaxRuntimeError as e:
        raise UsageError(f"@{entry} cannot be run: {str(e).strip()}") from None
    return jax.tree.unflatten(program.out_tree, results)


def _ops_by_dialect(program: Program) -> dict[str, ir.OpView]:
    """The first op of each dialect in the functions, by the dialect's name."""
    ops: dict[str, ir.OpView] = {}
    for function in program.functions.values():
        for op in function.entry_block.operations:
            ops.setdefault(op.operation.name.partition(".")[0], op)
    ops.pop("func", None)
    return ops


# The dialects that XLA's compiler accepts besides ours.
_COMPILED = frozenset({"stablehlo", "chlo", "mhlo", "sdy"})


def _is_stablehlo(program: Program) -> bool:
    """Whether the functions have ops of other dialects than the jaxpr dialect."""
    return not _ops_by_dialect(program).keys() <= {"jaxpr"}


def _reject_foreign_ops(program: Program) -> None:
    """Fails on ops that are neither jaxpr nor StableHLO, on a mix, and on Python callbacks."""
    from jaxmlir.dialect.locations import error_at

    _reject_callbacks(program)
    ops = _ops_by_dialect(program)
    mixed = "jaxpr" in ops
    for dialect, op in ops.items():
        if dialect != "jaxpr" and (mixed or dialect not in _COMPILED):
            message = (
                f"'{op.operation.name}' op: expected a module of the jaxpr dialect or of StableHLO"
            )
            message += ", got ops of both" if mixed else ""
            raise error_at(LoweringError, op.location, message)


def _reject_callbacks(program: Program) -> None:
    from jaxmlir.dialect.custom_calls import PYTHON_CALLBACK
    from jaxmlir.dialect.locations import position

    diagnostics = []
    with context():
        for op in inner_ops(program.module):
            if (name := op.operation.name) == "stablehlo.custom_call":
                target = op.attributes["call_target_name"].value
                if PYTHON_CALLBACK.fullmatch(target):
                    message = (
                        f"'{name}' op calls a Python function ({target}), which only the process "
                        "that lowered the program can do"
                    )
                    diagnostics.append(Diagnostic("error", message, *position(op.location)))
    if diagnostics:
        raise LoweringError(diagnostics)


def _platform_argument(program: Program, entry: str) -> int | None:
    """The index of the argument of a StableHLO function that is the platform's index, if any."""
    if not _is_stablehlo(program):
        return None
    named = _named_platforms(program, entry)
    return next((i for i, platforms in enumerate(named) if platforms), None)


def _platform_number(program: Program, entry: str, platform: str) -> int:
    """The index of a platform among those that a function was lowered for."""
    platforms = next(filter(None, _named_platforms(program, entry)))
    if platform not in platforms:
        raise LoweringError(f"@{entry} was lowered for {', '.join(platforms)}, not for {platform}")
    return platforms.index(platform)


def _named_platforms(program: Program, entry: str) -> list[list[str]]:
    """The platforms that the attributes of each argument list; most list none."""
    from jaxmlir.lowering.lowering import PLATFORMS

    def names(of_one: ir.DictAttr) -> list[str]:
        listed = of_one[PLATFORMS] if PLATFORMS in of_one else None
        return [str(p).strip('"') for p in listed] if isinstance(listed, ir.ArrayAttr) else []

    with context():
        attributes = program.function(entry).attributes
        arg_attrs = attributes["arg_attrs"] if "arg_attrs" in attributes else ()
        return [names(ir.DictAttr(of_one)) for of_one in arg_attrs]


@functools.cache
def _stablehlo_primitive() -> Any:
    """A JAX primitive that calls a function of a StableHLO module, which JAX thus compiles and
    dispatches like everything else."""
    from jaxmlir._compat import core, jax_export, mlir

    primitive = core.Primitive("jaxmlir_run_stablehlo")
    primitive.multiple_results = True

    @primitive.def_abstract_eval
    def abstract_eval(*_: Any, program: Program, entry: str) -> Any:
        from jaxmlir.analysis.call_graph import call_signature

        return call_signature(program, entry).results

    def lowering(ctx: Any, *args: Any, program: Program, entry: str) -> Any:
        # A call of LAPACK jumps to addresses that JAX's own lowering rules load.
        jax_export._ensure_backends_initialized(ctx.module_context.platforms)
        target = ctx.module_context.module
        module = ir.Module.parse(module_bytecode(program.module), target.context)
        types = functions(module)[entry].type.results
        index = _platform_argument(program, entry)
        if index is not None:
            number = _platform_number(program, entry, ctx.module_context.platforms[0])
            args = [*args[:index], mlir.ir_constant(np.int32(number)), *args[index:]]
        # JAX's function to merge modules takes the function of this name.
        rename_symbol(module, entry, "main")
        symbol = mlir.merge_mlir_modules(target, entry, module)
        return func.CallOp(types, ir.FlatSymbolRefAttr.get(symbol), args).results

    mlir.register_lowering(primitive, lowering)
    return primitive


def _select_entry(program: Program, name: str | None) -> str:
    """Makes the function to run the only public one; returns its name."""
    defined = functions(program.module)
    public = [n for n, f in defined.items() if not is_private(f)]
    if name is None:
        if not public:
            raise UsageError("the module has no public function to run")
        if len(public) != 1:
            raise UsageError(
                f"the module has {len(public)} public functions ({', '.join(public)}); "
                "say which to run with --entry"
            )
        name = public[0]
    if name not in defined:
        meant = nearest(name, defined)
        hint = f"did you mean '{meant}'?" if meant else f"it has {', '.join(public) or 'none'}"
        raise UsageError(f"the module has no function '{name}'; {hint}")
    with scope():
        for other, function in defined.items():
            visibility = "public" if other == name else "private"
            function.attributes["sym_visibility"] = ir.StringAttr.get(visibility)
    program.changed()
    return name


@dataclass
class _EntryArguments:
    """Gathers the arguments of the entry function, one by one in the order of its operands.

    Attributes:
      names: the names of the arguments, in the form of :func:`_key`; ``""`` for those without.
    """

    entry: str
    avals: Sequence[Any]
    names: Sequence[str]

    def read(self, arguments: CommandLine) -> list[Any]:
        """The arguments. Those that ``--input`` files name come from there; the others take the
        values of ``--args``, then the files' other arrays in order, then random values."""
        self.check()
        positional = [*_literals(arguments.get("args") or "")]
        if any(isinstance(value, dict) for value in positional):
            raise self.error(
                f"got a dictionary; give its leaves one by one: {', '.join(self.names)}"
            )
        named: dict[int, Any] = {}
        for path in arguments.values.get("input", ()):
            arrays = _arrays_of(path)
            of_file = self.by_name(path, arrays)
            if twice := sorted(of_file.keys() & named.keys()):
                raise UsageError(f"argument {self.names[twice[0]]} is in two --input files")
            named |= of_file
            if not of_file:
                self.say_order(path, arrays)
                positional += arrays.values()
        if len(positional) + len(named) > len(self.avals):
            raise self.error(_num_given([*named, *positional]))
        free = [i for i in range(len(self.avals)) if i not in named]
        named |= zip(free, positional, strict=False)
        values = {i: self.converted(i, named[i]) for i in sorted(named)}
        missing = free[len(positional) :]
        if missing and "random-args" not in arguments.values:
            names = [self.names[i] for i in missing]
            shown = [*names[:10], f"{len(names) - 10} more"] if len(names) > 11 else names
            which = f", none for {', '.join(shown)}" if values and all(names) else ""
            raise self.error(
                f"{_num_given([*values])}{which}; --random-args uses random values for the rest"
            )
        seed = (arguments.integer("random-args") if arguments.get("random-args") else 0) or 0
        values |= {i: self.random(i, seed) for i in missing}
        return [values[i] for i in range(len(self.avals))]

    def by_name(self, path: str, arrays: Mapping[str, Any]) -> dict[int, Any]:
        """The arrays of a file, by the index of the argument that each is named after.  Empty for a
        file with other names, such as those of results; if some names are of arguments, all have to
        be."""
        numbers = {name: i for i, name in enumerate(self.names) if name}
        named = {numbers[_key(name)]: a for name, a in arrays.items() if _key(name) in numbers}
        unknown = [name for name in arrays if _key(name) not in numbers]
        if named and unknown:
            meant = nearest(_key(unknown[0]), numbers)
            hint = f"did you mean '{meant}'?" if meant else f"it has {', '.join(numbers)}"
            raise UsageError(
                f"'{path}' has '{unknown[0]}', which is not an argument of @{self.entry}; {hint}"
            )
        return named

    def say_order(self, path: str, arrays: Mapping[str, Any]) -> None:
        """Says that the names of a file's arrays are ignored, unless they only number them, as the
        names that NumPy and ``-o`` give."""
        if len(arrays) > 1 and not all(map(_IN_ORDER.match, arrays)):
            had = ", ".join(filter(None, self.names)) or "which have no names"
            print(
                f"jaxmlir-run: no array of '{path}' has the name of an argument of @{self.entry} "
                f"({had}): its arrays are taken in their order",
                file=sys.stderr,
            )

    def check(self) -> None:
        """Fails on an operand that is not an array, such as a reference or a token."""
        from jaxmlir._compat import core

        for i, aval in enumerate(self.avals):
            if not isinstance(aval, core.ShapedArray):
                raise UsageError(
                    f"argument {i} of @{self.entry} is {aval.str_short(short_dtypes=True)}; only "
                    "arrays can be given"
                )

    def error(self, came: str) -> UsageError:
        from jaxmlir.program.arguments import SHOWN, short_types

        takes = f"{count(len(self.avals), 'argument')} ({short_types(self.avals)})"
        more = "; jaxmlir-translate --describe lists them" if len(self.avals) > SHOWN else ""
        return UsageError(f"@{self.entry} takes {takes}, {came}{more}")

    def converted(self, index: int, value: Any) -> Any:
        """A literal or array, converted to the operand's dtype; its shape must match already."""
        import jax

        from jaxmlir.program.specialize import is_symbolic

        aval = self.avals[index]
        if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
            return self.key(index, value)
        try:
            raw = np.asarray(value)
            # NumPy makes None a NaN, and integers that no dtype holds objects.
            if raw.dtype.kind in "OSU":
                if not all(isinstance(item, int) for item in raw.flat):
                    raise TypeError("expected numbers only")
            # npy files hold bfloat16, fp8 and int4 as bytes of a type without a name.
            unnamed = raw.dtype.kind == "V"
            array = raw.view(aval.dtype) if unnamed else _cast(raw, aval.dtype)
        except (OverflowError, TypeError, ValueError) as e:
            raise self.mismatch(index, repr(value), str(e)) from None
        if array.shape != aval.shape and not is_symbolic(aval):
            raise self.mismatch(index, f"an array of shape {list(array.shape)}")
        return array

    def key(self, index: int, value: Any) -> Any:
        """PRNG keys from a seed, or from the raw key data that ``-o`` saves."""
        import jax

        from jaxmlir.program.specialize import is_symbolic

        aval = self.avals[index]
        impl = jax.random.key_impl(jax.numpy.empty((), aval.dtype))
        try:
            data = np.asarray(value)
            if data.ndim == 0:
                seed = operator.index(data.item())
                return jax.numpy.broadcast_to(jax.random.key(seed, impl=impl), aval.shape)
            key_shape = jax.random.key_data(jax.random.key(0, impl=impl)).shape
            if data.shape[-len(key_shape) :] != key_shape:
                raise ValueError(f"the data of a key has the shape {list(key_shape)}")
            keys = jax.random.wrap_key_data(_cast(data, np.dtype("uint32")), impl=impl)
        except (OverflowError, TypeError, ValueError) as e:
            raise self.mismatch(index, repr(value), str(e)) from None
        if keys.shape != aval.shape and not is_symbolic(aval):
            raise self.mismatch(index, f"the data of an array of keys of shape {list(keys.shape)}")
        return keys

    def mismatch(self, index: int, got: str, why: str = "") -> UsageError:
        expected = self.avals[index].str_short(short_dtypes=True)
        detail = f" ({why})" if why else ""
        return UsageError(f"argument {index} of @{self.entry} is {expected}, but got {got}{detail}")

    def random(self, index: int, seed: int) -> Any:
        import jax

        from jaxmlir.program.specialize import is_symbolic

        aval = self.avals[index]
        if is_symbolic(aval):
            raise self.error(
                "but --random-args cannot know the sizes of symbolic shapes; give these arguments "
                "with --args or --input"
            )
        if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
            return self.key(index, (seed + index) % (command_line.MAX_INTEGER + 1))
        try:
            return self._drawn(aval, np.random.default_rng((seed, index)))
        except (MemoryError, ValueError) as e:
            expected = aval.str_short(short_dtypes=True)
            raise UsageError(
                f"argument {index} of @{self.entry} is {expected}, and has no random value: {e}"
            ) from None

    @staticmethod
    def _drawn(aval: Any, generator: np.random.Generator) -> np.ndarray[Any, Any]:
        import jax

        if jax.numpy.issubdtype(aval.dtype, np.inexact):
            drawn = generator.standard_normal(aval.shape)
            if jax.numpy.issubdtype(aval.dtype, np.complexfloating):
                drawn = drawn + 1j * generator.standard_normal(aval.shape)
            return np.asarray(drawn).astype(aval.dtype)
        top = 2 if aval.dtype == np.bool_ else 10
        return np.asarray(generator.integers(0, top, aval.shape)).astype(aval.dtype)


def _argument_names(function: Any, platform: int | None) -> list[str]:
    """The names of a function's arguments, ``""`` for those without, except that of the platform's
    index."""
    from jaxmlir.artifact.description import paths_of_arguments

    with scope():
        paths = paths_of_arguments(function) or [""] * len(function.arguments)
    return [_key(path) for i, path in enumerate(paths) if i != platform]


def _key(path: str) -> str:
    """``p['w'][0]`` as ``p.w.0``, the form of names in safetensors files."""
    return re.sub(r"\[['\"]?([^'\"\]]*)['\"]?\]", r".\1", path).strip(".")


def _num_given(values: Sequence[Any]) -> str:
    return f"{count(len(values), 'argument')} {'was' if len(values) == 1 else 'were'} given"


def _cast(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """Converts an array to a dtype that holds its values; only floats are rounded."""
    import jax

    # NumPy 2.5 returns no array as the real part of an array of integers that no dtype holds.
    drops = np.iscomplexobj(array) and not jax.numpy.issubdtype(dtype, np.complexfloating)
    with np.errstate(invalid="ignore", over="ignore"):
        result = (array.real if drops else array).astype(dtype)
    rounds = jax.numpy.issubdtype(dtype, np.inexact) and not drops
    if not rounds and np.any(result != array):
        raise ValueError(f"the value does not fit {np.dtype(dtype)}")
    return result


def _literals(text: str) -> tuple[Any, ...]:
    """The values of ``--args``; a string names a .npy file, or a .npz file for all its arrays."""
    from jaxmlir.cli.argspec import is_abstract, parse_positional

    values: list[Any] = []
    try:
        parsed = parse_positional(text)
    except UsageError as e:
        why = str(e).partition("; write arrays as")[0]
        raise UsageError(
            f"{why}; write values as in --args '1.5, [1, 2], true', and the name of a file of "
            "arrays as in '\"x.npy\"'"
        ) from None
    for value in parsed:
        if is_abstract(value):
            raise UsageError(f"--args expects literals, got {value} in '{text}'")
        values += _arrays_of(value).values() if isinstance(value, str) else [value]
    return tuple(values)


# Names that only give an order.
_IN_ORDER = re.compile(r"arr_\d+$|result")


def _arrays_of(path: str) -> Mapping[str, np.ndarray[Any, Any]]:
    """The arrays of a .npy, .npz or .safetensors file, in their order; never unpickles."""
    if path.endswith(".safetensors"):
        return _safetensors(path)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            arrays = dict(loaded)
    except OSError as e:
        raise UsageError(f"cannot open input file '{path}': {e.strerror or e}") from None
    # For damaged files, numpy, zipfile and zlib raise exceptions of many kinds.
    except Exception as e:
        # NumPy recommends allow_pickle, which would execute what the file says.
        why = "it holds Python objects, which are not read" if "allow_pickle" in str(e) else e
        raise UsageError(f"'{path}' is neither a .npy nor a .npz file of arrays: {why}") from None
    if wrong := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise UsageError(f"'{path}' has '{wrong[0]}', which is not a .npy file")
    return arrays


def _safetensors(path: str) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a safetensors file, in the order of its data."""
    from jaxmlir.artifact import container

    try:
        from safetensors import SafetensorError, deserialize
    except ImportError:
        raise UsageError(
            f"to read '{path}', install safetensors: pip install safetensors"
        ) from None
    try:
        entries = deserialize(command_line.read_bytes(path))
    except SafetensorError as e:
        raise UsageError(f"'{path}' is not a safetensors file: {e}") from None
    arrays = {}
    for name, entry in entries:
        dtype = container.dtype_called(entry["dtype"])
        if dtype is None:
            raise UsageError(f"'{path}' has '{name}' of dtype {entry['dtype']}, which JAX lacks")
        arrays[name] = np.frombuffer(entry["data"], dtype).reshape(entry["shape"])
    return arrays


def _print(results: Any) -> None:
    """Prints every digit that tells a number from its neighbours; long arrays are abridged."""
    import jax

    style: Any = {"separator": ", ", "formatter": {"all": str}, "max_line_width": 100}
    for path, value in _named(results):
        text = np.array2string(_plain(value), threshold=1000, **style)
        print(f"result{path}: {jax.typeof(value).str_short(short_dtypes=True)} = {text}")


def _named(results: Any) -> list[tuple[str, Any]]:
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(results)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _plain(value: Any) -> np.ndarray[Any, Any]:
    """A result as a numpy array; PRNG keys are given by their data."""
    import jax

    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def _save(path: str, results: Any) -> None:
    """Saves one array as .npy, or several as .npz, in order, named by their place in the result."""
    arrays = {f"result{name}": _plain(value) for name, value in _named(results)}
    as_npy = path.endswith(".npy")
    if as_npy and len(arrays) != 1:
        raise UsageError(f"{len(arrays)} results do not fit in '{path}'; save them as .npz")
    with command_line.output_file(path) as file:
        if as_npy:
            np.save(file, *arrays.values())
        else:
            np.savez(file, **arrays)


if __name__ == "__main__":
    sys.exit(main())
