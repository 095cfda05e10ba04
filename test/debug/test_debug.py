"""The debugging tools find planted errors; numbers are compared with numpy's and JAX's."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from jaxmlir import debug
from jaxmlir.errors import ArgumentError

pytestmark = pytest.mark.compat


def line_of(function, text):
    """The line of a function's source that contains a text."""
    import inspect

    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


# -- find_nan --


def test_a_file_of_any_name(tmp_path):
    """MLIR prints non-ASCII letters as escaped bytes."""
    folder = tmp_path / 'a "dé"\\41'
    folder.mkdir()
    file = folder / "mö.py"
    file.write_text(
        "import jax.numpy as jnp\n\ndef inner(x):\n    return jnp.log(x - 1)\n\n"
        "def f(x):\n    return inner(x)\n"
    )
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    found = debug.find_nan(jaxmlir.trace(names["f"])(1.0), 0.5)
    assert f"at {file}:4\n    return jnp.log(x - 1)\n" in str(found)


@jax.custom_vjp
def squared(x):
    return x * x


def squared_fwd(x):
    return x * x, x


def squared_bwd(x, ct):
    def step(total, t):
        scaled = x / (t - 317.0)  # Zero divided by zero, or a number divided by zero.
        return total + scaled * 0.0, scaled

    total, _ = jax.lax.scan(step, jnp.zeros_like(x), jnp.arange(1000.0))
    return ((total + 2 * x) * ct,)


squared.defvjp(squared_fwd, squared_bwd)


def loss(x):
    return jnp.sum(squared(x))


def test_an_inf_in_a_scan_of_a_custom_backward_rule():
    program = jaxmlir.trace(loss)(jnp.ones(3)).grad()
    found = debug.find_nan(program, jnp.ones(3))
    assert (found.kind, found.place.op, found.place.iterations) == ("Inf", "jaxpr.div", (317,))
    assert (found.place.file, found.place.line) == (__file__, line_of(squared_bwd, "scaled = x"))
    assert found.place.source.startswith("scaled = x / (t - 317.0)")
    assert [(r.minimum, r.maximum, r.zeros) for r in found.operands] == [(1, 1, 0), (0, 0, 1)]
    assert found.results[0].infs == 3
    text = str(found)
    assert "Inf made by 'jaxpr.div' op at" in text
    assert "iteration 317 of 1000 of scan" in text
    assert "operand #1: f32[]: from 0 to 0, 1 of 1 zero" in text


def test_the_forward_and_backward_programs_of_vjp():
    forward, backward = jaxmlir.trace(loss)(jnp.ones(3)).vjp()
    assert debug.find_nan(forward, jnp.ones(3)) is None
    _, residuals = forward(jnp.ones(3))
    found = debug.find_nan(backward, residuals, jnp.float32(1.0))
    assert (found.place.op, found.place.iterations) == ("jaxpr.div", (317,))


def test_nan_of_a_derivative():
    """The function is finite, its derivative is inf * 0."""

    def norm(x):
        return jnp.sqrt(jnp.sum(x * x))

    program = jaxmlir.trace(norm)(jnp.zeros(2))
    assert debug.find_nan(program, jnp.zeros(2)) is None
    assert np.isnan(program.grad()(jnp.zeros(2))).all()
    first = debug.find_nan(program.grad(), jnp.zeros(2))
    assert (first.kind, first.place.line) == ("Inf", line_of(norm, "sqrt"))
    nan = debug.find_nan(program.grad(), jnp.zeros(2), inf=False)
    assert (nan.kind, nan.place.op) == ("NaN", "jaxpr.mul")


def test_what_is_passed_on_is_not_made():
    def masked(x):
        return jnp.sum(jax.nn.softmax(jnp.where(jnp.arange(3) < 2, x, -jnp.inf)))

    program = jaxmlir.trace(masked)(jnp.ones(3))
    assert debug.find_nan(program, jnp.ones(3)) is None
    assert debug.find_nan(program, jnp.full(3, jnp.nan)) is None
    assert debug.find_nan(program, jnp.array([1.0, jnp.inf, 1.0])).kind == "NaN"


def test_on_several_devices():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))
    spec = jax.sharding.PartitionSpec("i")

    @jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec)
    def reciprocal(x):
        return 1.0 / x

    found = debug.find_nan(jaxmlir.trace(reciprocal)(jnp.ones(4)), jnp.array([1.0, 2, 0, 4]))
    assert found.place.op == "jaxpr.div"
    assert "shard_map" in found.place.stack[-1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.array([1.5, -2.0, 0.0], "f"), "f32[3]: from -2 to 1.5, 1 of 3 zero"),
        (np.array([[np.nan, 1.0], [np.inf, 3.0]], "f"), "f32[2,2]: from 1 to 3, 1 of 4 NaN, 1 of"),
        (np.array([[1.0, np.nan]], "f"), "the first non-finite element at [0, 1]"),
        (np.array([True, False]), "bool[2]: from 0 to 1, 1 of 2 zero"),
        (np.zeros((0,), "f"), "f32[0]"),
        (np.array([np.nan], "f"), "f32[1]: 1 of 1 NaN"),
        (jnp.array([1.0, jnp.inf], jnp.bfloat16), "bf16[2]: from 1 to 1, 1 of 2 Inf"),
        (np.array([1 + 2j, 3], np.complex64), "c64[2]: from 1 to 3"),
        (jax.random.key(0), "key<fry>[]"),
    ],
)
def test_ranges(value, text):
    assert text in str(debug.Range.of(value))


# -- breakpoint_at --


def stops(monkeypatch, program, *args, act=lambda local: None, **where):
    """The local names at every stop, and the program's result."""
    seen = []

    def hook():
        local = sys._getframe(1).f_locals
        seen.append(dict(local))
        act(local)

    monkeypatch.setattr(sys, "breakpointhook", hook)
    return seen, program.eval(*args, hooks=[debug.breakpoint_at(**where)])


def test_stops_by_op_line_and_predicate(monkeypatch):
    program = jaxmlir.trace(loss)(jnp.ones(3)).grad()
    line = line_of(squared_bwd, "scaled = x")
    seen, _ = stops(
        monkeypatch,
        program,
        jnp.ones(3),
        op="div",
        line=f"test_debug.py:{line}",
        when=lambda step: step.iterations[-1] in (2, 317),
    )
    assert [float(local["operands"][1]) for local in seen] == [-315.0, 0.0]
    assert seen[0]["results"] is None
    assert stops(monkeypatch, program, jnp.ones(3), line=line + 1000)[0] == []
    for file, count in (
        ("test/debug/test_debug.py", 4),
        (__file__, 4),
        ("bug.py", 0),
        ("t_debug.py", 0),
    ):
        where = {"op": "div", "line": f"{file}:{line}"}
        where["when"] = lambda step: step.iterations[-1] < 4
        assert len(stops(monkeypatch, program, jnp.ones(3), **where)[0]) == count


def test_the_debugger_may_change_values(monkeypatch):
    def function(x):
        return jnp.sin(x) + 1.0

    def act(local):
        local["results"][0] = jnp.float32(10.0)

    program = jaxmlir.trace(function)(jnp.float32(1.0))
    seen, result = stops(monkeypatch, program, 1.0, op="jaxpr.sin", after=True, act=act)
    assert len(seen) == 1
    assert result == 11.0


def test_pdb():
    code = (
        "import jaxmlir; from jaxmlir import debug\n"
        "program = jaxmlir.trace(lambda x, y: x - y)(1.0, 2.0)\n"
        "print(program.eval(1.0, 2.0, hooks=[debug.breakpoint_at('sub')]))\n"
    )
    commands = "p operands[1] + 100\np step.name\noperands[0] = 5.0\nc\n"
    done = subprocess.run(
        [sys.executable, "-c", code], input=commands, capture_output=True, text=True, check=True
    )
    assert "stopped before 'jaxpr.sub' op at <string>:2" in done.stdout
    assert "Array(102., dtype=float32" in done.stdout
    assert "(Pdb) 'jaxpr.sub'" in done.stdout
    assert done.stdout.endswith("(Pdb) 3.0\n")


def test_a_breakpoint_at_an_op_that_no_program_has():
    with pytest.raises(
        ArgumentError, match="no primitive makes an op 'jaxpr.logg'; did you mean 'l"
    ):
        debug.breakpoint_at("logg")


# -- diff --


def model(x, w):
    h = jnp.tanh(x @ w)
    h = h * 1e-3 + 1.0
    return jnp.sum((h - 1.0) ** 2)


def arguments():
    keys = jax.random.split(jax.random.key(0))
    return [jax.random.normal(key, (4, 4)) for key in keys]


def test_equal_programs():
    program = jaxmlir.trace(model)(*arguments())
    assert debug.diff(program, program.clone(), *arguments()) is None
    assert debug.diff(program, program.run_passes("jaxpr-dedupe-functions"), *arguments()) is None


def test_two_programs_part_where_one_was_changed():
    first = jaxmlir.trace(model)(*arguments())
    second = jaxmlir.parse(first.as_text(debug_info=True).replace('"jaxpr.tanh"', '"jaxpr.sin"'))
    # Ops that only one program has are skipped: the next op shows the difference.
    found = debug.diff(first, second, *arguments())
    assert (found.place.op, found.place.line) == ("jaxpr.mul", line_of(model, "1e-3"))
    x, w = map(np.asarray, arguments())
    expected = np.abs(np.sin(x @ w) - np.tanh(x @ w)).max() * 1e-3
    np.testing.assert_allclose(found.absolute, expected, rtol=1e-4)
    assert found.operands[0] > 1e-3
    assert "the first op that differs: 'jaxpr.mul' op at" in str(found)


def test_products_with_exchanged_operands():
    """``-O2`` makes layers one function, in which the weights' gradient is another product than
    that before the pass: its transpose."""

    def loss(w, x):
        for layer in w:
            x = jax.nn.gelu(x @ layer + x)
        return jnp.sum(x**2)

    w, x = jax.random.normal(jax.random.key(0), (4, 8, 8)) / 8, jnp.ones((16, 8))
    program = jaxmlir.trace(jax.grad(loss))(list(w), x)
    outlined = program.optimize(2)
    assert debug.diff(program, outlined, list(w), x) is None
    scaled = outlined.as_text(debug_info=True).replace("dense<0.797", "dense<0.5")
    found = debug.diff(program, jaxmlir.parse(scaled), list(w), x)
    assert found.place.op == "jaxpr.mul" and found.place.line == line_of(loss, "gelu")


def test_an_op_whose_operands_differ_too_counts_if_the_results_differ():
    def f(x, scale):
        return scale * jnp.exp(x * jnp.sin(x)) + x

    program = jaxmlir.trace(f)(jnp.ones(3), 1.0)
    changed = program.as_text(debug_info=True).replace('"jaxpr.sin"', '"jaxpr.cos"')
    second = jaxmlir.parse(changed)
    assert debug.diff(program, second, jnp.ones(3), 0.0) is None
    assert debug.diff(program, second, jnp.ones(3), 1.0).place.op == "jaxpr.mul"


def test_one_program_in_two_precisions():
    """The difference shows at 1 + 1e-3 h, where bfloat16 loses the needed digits; before it, values
    differ by no more than the resolution of bfloat16."""
    program = jaxmlir.trace(model)(*arguments())
    found = debug.diff(program, program, *arguments(), dtypes=(None, "bfloat16"), rtol=0.02)
    assert found.place.op == "jaxpr.sub"
    assert found.place.line == line_of(model, "- 1.0")
    assert found.values[1] == 0.0 or abs(found.values[1]) >= 2**-8
    assert debug.diff(program, program, *arguments(), dtypes=("float32", None)) is None


def test_programs_of_two_dtypes():
    first = jaxmlir.trace(model)(*arguments())
    second = jaxmlir.trace(model)(*(a.astype(jnp.bfloat16) for a in arguments()))
    found = debug.diff(first, second, *arguments(), rtol=0.05)
    assert found.place.line == line_of(model, "- 1.0")
    assert found.ranges[0].type == "f32[4,4]"
    assert found.ranges[1].type == "bf16[4,4]"


def test_wide_types_are_kept_where_jax_has_narrow_ones():
    def f(x):
        return jnp.sin(x) + jnp.cos(x)

    values = np.linspace(0.0, 3.0, 8)
    with jax.enable_x64(True):
        wide = jaxmlir.trace(f)(values)
    narrow = jaxmlir.trace(f)(values.astype("float32"))
    for given in (values, values.astype("float32")):
        assert debug.diff(narrow, wide, given) is None
        assert debug.diff(wide, wide, given, rtol=0.0) is None
    parted = debug.diff(narrow, wide, values, rtol=1e-12)
    assert [found.type for found in parted.ranges] == ["f32[8]", "f64[8]"]


def test_programs_of_symbolic_shapes():
    (n,) = jax.export.symbolic_shape("n")
    program = jaxmlir.trace(jnp.sin)(jax.ShapeDtypeStruct((n,), "float32"))
    assert debug.diff(program, program, jnp.arange(3.0)) is None
    parted = debug.diff(program, program, jnp.arange(3.0), dtypes=(None, "bfloat16"), rtol=1e-5)
    assert parted.place.op == "jaxpr.sin"


def test_complex_numbers_are_rounded_too():
    program = jaxmlir.trace(lambda z: jnp.fft.fft(z) * z)(jnp.ones(4, jnp.complex64))
    z = jnp.linspace(1.0, 2.0, 4) + 1j / 3
    found = debug.diff(program, program, z, dtypes=(None, "bfloat16"), rtol=1e-4)
    assert found.place.op == "jaxpr.fft"


def test_programs_with_other_results():
    def program(f):
        return jaxmlir.trace(f)(jnp.ones(3))

    one, two, short = program(jnp.sin), program(lambda x: (x, x)), program(lambda x: x[:1])
    for other, shapes in ((two, r"\(3,\) and \(3,\), \(3,\)"), (short, r"\(3,\) and \(1,\)")):
        with pytest.raises(ArgumentError, match=f"results of the same shapes, got {shapes}"):
            debug.diff(one, other, jnp.ones(3))


def test_random_keys_are_compared():
    def split(key):
        return jax.random.split(key)

    def fold(key):
        return jax.random.split(jax.random.fold_in(key, 1))

    key = jax.random.key(3)
    first, second = jaxmlir.trace(split)(key), jaxmlir.trace(fold)(key)
    assert debug.diff(first, first, key, devices=jax.devices()[:2]) is None
    found = debug.diff(first, second, key)
    assert [found.type for found in found.ranges] == ["key<fry>[2]"] * 2
    data = [np.asarray(jax.random.key_data(f(key))) for f in (split, fold)]
    assert found.values == tuple(int(keys[found.index]) for keys in data)


def test_large_integers_that_differ_by_one():
    n = np.array([5, 2**60])
    with jax.enable_x64(True):
        second = jaxmlir.trace(lambda n: n + np.array([0, 1]))(n)
        first = jaxmlir.trace(lambda n: n + np.array([0, 0]))(n)
        found = debug.diff(first, second, n)
    assert (found.index, found.values) == ((1,), (2**60, 2**60 + 1))


def test_on_two_devices_with_a_hook_of_ones_own():
    program = jaxmlir.trace(model)(*arguments())
    devices = jax.devices()[:2]
    assert debug.diff(program, program, *arguments(), devices=devices) is None


def test_only_the_results_differ():
    first = jaxmlir.trace(jnp.sin)(jnp.float32(1.0))
    second = jaxmlir.trace(jnp.cos)(jnp.float32(1.0))
    found = debug.diff(first, second, 1.0)
    assert found.place is None
    np.testing.assert_allclose(found.values, (np.sin(1.0), np.cos(1.0)), rtol=1e-6)
    assert "no op that both programs have differs" in str(found)
