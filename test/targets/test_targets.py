"""The target that a program is optimized for: by name, by platform, and several at once."""

import dataclasses
import functools
import re
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxmlir
from benchmarks import calibrate
from benchmarks.programs import NAIVE, PROGRAMS
from jaxmlir import backend, targets
from jaxmlir._compat import core, effects, mlir
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import Work
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import OPS
from jaxmlir.errors import ArgumentError, PassError
from jaxmlir.passes import BUILTIN_PASSES, LEVELS, STORAGE, Pass, find_pass, level_pipeline
from jaxmlir.targets.costs import PLATFORMS, TABLES, Costs, machines

ACCELERATORS = ("tpu", "cuda", "rocm")
ALL = ("cpu", *ACCELERATORS)
OF_LEVELS = {name for name in LEVELS[2]}
CPU_ONLY = sorted(name for name in OF_LEVELS if find_pass(name).compilers == ("cpu",))
# Traces of passes for the CPU's compiler: 64-bit polynomials, barriers, and calls that stay.
MARKS = re.compile(r"f64|optimization_barrier|inlineable")

X = np.linspace(-1.0, 1.0, 256 * 256, dtype=np.float32).reshape(256, 256)


def waves(x):
    return jnp.sum(jnp.sin(x) * jnp.cos(3 * x) + jnp.sin(jnp.cos(x) + x))


def ripples(x):
    return jnp.sin(x) * jnp.cos(3 * x)


def diffusion(u):
    for _ in range(4):
        around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        # Linear: its derivative reads no step of which passes for a TPU say that it is stored.
        u = u + 0.1 * (around - 4 * u)
    return jnp.sum(u**2)


def recurrence(x):
    h = x[0]
    for i in range(24):
        h = jnp.tanh(h @ x + x[i])
    return jnp.sum(h)


FUNCTIONS = {f.__name__: f for f in (waves, diffusion, recurrence)}


def text(program, *platforms):
    return program.lower(platforms).as_text()


def marks(text):
    return sorted(set(MARKS.findall(text)))


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(targets.target_names()))
def test_every_target_has_a_name(name):
    target = targets.target(name)
    assert str(target) == name
    assert target.devices == 1
    assert targets.target(str(target.on(2))) == target.on(2)
    assert target.costs.bandwidth is not None or target.is_cpu
    assert hash(target) == hash(targets.target(name))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_table_has_known_costs_only(platform):
    for machine in machines(platform).values():
        costs = machine.costs._asdict()
        elements = costs.pop("elements")
        assert costs.pop("spread_value") >= 0
        assert all(costs[name] > 0 for name in costs.keys() - {"flops", "bandwidth"})
        assert all(cost > 0 for _, cost in elements)
        assert {f"jaxpr.{name}" for name, _ in elements} <= {f"jaxpr.{name}" for name in OPS}
        assert sorted(machine.caches) == list(machine.caches)


def test_a_calibration_writes_a_table_of_all_costs():
    before = tomllib.loads((TABLES / "cpu.toml").read_text())
    found = tomllib.loads(
        calibrate.table(dict.fromkeys(before["costs"], 1.25), {"exp": 9.0}, before)
    )
    assert found["elements"] == before["elements"] | {"exp": 9.0}
    assert found["costs"].keys() == before["costs"].keys()
    assert set(found["costs"].values()) == {1.2}
    assert found["sizes"] == before["sizes"]
    others = {"flops", "bandwidth", "elements"}
    assert {*found["costs"], *found["sizes"]} == {*Costs._fields} - others


def test_work_is_weighed_by_the_costs_of_the_target():
    program = jaxmlir.trace(lambda x: jnp.exp(x) + x)(X)
    cheap = targets.target("cpu")
    costs = cheap.costs._replace(transcendental=10 * cheap.costs.transcendental)
    found = {}
    machine = cheap.machine._replace(costs=costs)
    for target in (cheap, dataclasses.replace(cheap, measured=machine)):
        program.target = target
        work, body = Work(program), analyses_of(program).body(program.function(program.name))
        found[target] = [work.at(body, index) / X.size for index in range(2)]
    (exp, add), (dear_exp, dear_add) = found.values()
    ratio = cheap.costs.transcendental / cheap.costs.flop
    assert exp == pytest.approx(ratio) and dear_exp == pytest.approx(10 * ratio)
    assert add == dear_add == 1


def test_a_topology_is_a_number_of_devices():
    assert targets.target("tpu:v5e:2x4").devices == 8
    assert targets.target("cuda:h100:8") == targets.target("cuda:h100").on(8)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cdua", "did you mean 'cuda'"),
        ("tpu:v5r", "did you mean 'tpu:v5"),
        ("cuda:h101", "did you mean 'cuda:h100'"),
        ("gpu", "'gpu' stands for 'cuda' or 'rocm'"),
        ("tpu:v5e:2by2", "expected a topology such as 2x2"),
        ("", "known are cpu, cuda, rocm, tpu"),
        (5, "expected a name such as 'cuda:h100', got 5"),
        ([7] * 99, r"got \[7, 7, 7, 7, 7, 7, ...\]"),
    ],
)
def test_names_of_no_target(name, message):
    program = jaxmlir.trace(jnp.sin)(1.0)
    with pytest.raises(ArgumentError, match=message):
        program.optimize(2, target=name)
    with pytest.raises(ArgumentError, match=message):
        program.run_passes("cse", target=name)
    with pytest.raises(ArgumentError, match=message):
        jaxmlir.jit(jnp.sin, optimize=2, target=name)


def test_the_target_of_no_name_is_the_device_that_jax_uses():
    assert targets.default_target() == jaxmlir.trace(jnp.sin)(1.0).target == targets.target("cpu")


# --- passes --------------------------------------------------------------------------------------


def test_passes_for_one_compiler_are_skipped_for_others():
    assert "jaxpr-materialize-shared" in CPU_ONLY
    assert "jaxpr-remat" not in CPU_ONLY
    remarks = []
    program = jaxmlir.trace(waves)(X)
    after = program.run_passes(",".join(CPU_ONLY), target="tpu:v5e", remarks=remarks.append)
    assert str(after) == str(program)
    said = [remark.message for remark in remarks]
    note = "skipped: the pass is for cpu, the target is tpu:v5e"
    assert said == [f"[{name}] {note}" for name in CPU_ONLY]


@pytest.mark.parametrize("name", ["cpu", "cuda:h100", "tpu:v5e"])
def test_the_passes_of_a_level_for_other_compilers_are_not_listed(name):
    said = []
    # Two ops that passes for CPUs and for TPUs need.
    program = jaxmlir.trace(lambda x: jnp.tan(x) + jnp.isfinite(x))(X)
    program.optimize(2, target=name, remarks=lambda remark: said.append(remark.message))
    jaxmlir.jit(waves, optimize=2, target=name, remarks=lambda r: said.append(r.message)).lower(X)
    assert not [message for message in said if "skipped" in message]


def test_a_pass_of_ones_own_gets_the_target():
    class SeesTarget(Pass):
        """Records the target that it runs for."""

        name = "test-sees-target"
        seen = []

        def run(self, program):
            self.seen.append(program.target)
            return False

    program = jaxmlir.trace(jnp.sin)(1.0)
    program.run_passes("test-sees-target")
    program.run_passes("test-sees-target", target="cuda:h100")
    program.optimize(2, target="tpu").run_passes("test-sees-target")
    program.optimize(2, target="tpu").grad().run_passes("test-sees-target")
    names = ("cpu", "cuda:h100", "tpu", "tpu")
    assert SeesTarget.seen == [targets.target(name) for name in names]


def test_no_pass_of_jaxmlir_takes_a_platform():
    for name, _ in BUILTIN_PASSES:
        assert "platform" not in find_pass(name).options()


# --- cross-lowering ------------------------------------------------------------------------------


def gradient(program, **options):
    return program.optimize(2, without=STORAGE, **options).grad().optimize(2, **options)


def check_each_platform(make, reference):
    """Checks that ``make()``, lowered for each platform, equals ``make(target=platform)`` and, for
    accelerators, the pipeline without passes for the CPU.  The default target is the CPU."""
    program = make()
    assert str(program) == str(make(target="cpu"))
    assert text(program, "cpu") == text(make(target="cpu"), "cpu")
    for platform in ACCELERATORS:
        lowered = text(program, platform)
        assert lowered == text(make(target=platform), platform)
        assert lowered == text(reference(platform), platform)
        assert not marks(lowered)


@pytest.mark.compat
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_platform_gets_its_own(name):
    program = jaxmlir.trace(FUNCTIONS[name])(X)

    def reference(platform):
        return program.run_passes(level_pipeline(2, without=CPU_ONLY), target=platform)

    check_each_platform(functools.partial(program.optimize, 2), reference)


@pytest.mark.compat
@pytest.mark.parametrize("name", FUNCTIONS)
def test_so_do_gradients(name):
    program = jaxmlir.trace(FUNCTIONS[name])(X)

    def reference(platform):
        structure = level_pipeline(2, without={*CPU_ONLY, *STORAGE})
        primal = program.run_passes(structure, target=platform)
        passes = level_pipeline(2, without=CPU_ONLY)
        return primal.grad().run_passes(passes, target=platform)

    check_each_platform(functools.partial(gradient, program), reference)
    assert marks(text(gradient(program), "cpu")) or name == "recurrence"


# Programs that passes for the CPU change: sines, fences, margins, tiles, segments, loops.
SAMPLE = [
    "newton_unrolled",
    "gaussian_mixture",
    "lstm_unrolled",
    "softmax_memory",
    "one_hot_words",
    "poisson_residual",
]


@pytest.mark.sampled
@pytest.mark.parametrize("name", SAMPLE)
def test_benchmark_programs(name):
    benchmark = next(b for b in (*PROGRAMS.values(), *NAIVE.values()) if b.name == name)
    function, args = benchmark.make("small")
    program = jaxmlir.trace(function)(*args)
    plain = set(marks(jax.jit(jax.grad(function)).trace(*args).lower().as_text()))
    for made, options in ((program.optimize, {"level": 2}), (gradient, {"program": program})):
        default = made(**options)
        for platform in ACCELERATORS:
            lowered = text(default, platform)
            assert lowered == text(made(**options, target=platform), platform)
            assert set(marks(lowered)) <= plain


def branches(lowered):
    """The text of all code that each branch of the outermost case over platforms reaches."""
    module = lowered.compiler_ir()
    functions = {ir.StringAttr(f.attributes["sym_name"]).value: f for f in module.body.operations}
    found = []

    def see(op):
        if op.name == "stablehlo.case" and len(op.operation.results) and not found:
            regions = [str(region.blocks[0]) for region in op.operation.regions]
            if any(MARKS.search(closure(region)) for region in regions):
                found.extend(map(closure, regions))
        return ir.WalkResult.ADVANCE

    def closure(text):
        seen, pending = [], [text]
        while pending:
            part = pending.pop()
            seen.append(part)
            for name in re.findall(r"call @([\w.\"<>-]+)\(", part):
                callee = str(functions[name.strip('"')])
                if callee not in seen:
                    pending.append(callee)
        return "\n".join(seen)

    module.operation.walk(see)
    return found


@pytest.mark.compat
@pytest.mark.parametrize("name", ["waves", "diffusion"])
def test_one_module_for_several_platforms(name):
    function = FUNCTIONS[name]
    of_jit = jax.jit(jaxmlir.jit(jax.grad(function), optimize=2))
    for compiled in (jax.jit(gradient(jaxmlir.trace(function)(X))), of_jit):
        lowered = compiled.trace(X).lower(lowering_platforms=ALL)
        cpu, *others = branches(lowered)
        assert marks(cpu)
        assert others
        assert not any(map(marks, others))
        exported = export.export(compiled, platforms=ALL)(X)
        np.testing.assert_allclose(exported.call(X), jax.grad(function)(X), rtol=1e-4, atol=1e-5)


@pytest.mark.compat
def test_platforms_with_the_same_program_share_it():
    program = jaxmlir.trace(lambda x: jnp.exp(x) + 1)(X).optimize(2)
    assert "stablehlo.case" not in text(program, *ALL)


@pytest.mark.compat
def test_a_given_target_on_several_platforms():
    """One program for all platforms, with calls that stay, of functions of 64-bit numbers."""
    program = gradient(jaxmlir.trace(waves)(X), target="cpu")
    exported = export.export(jax.jit(program), platforms=ALL)(X)
    np.testing.assert_allclose(exported.call(X), jax.grad(waves)(X), rtol=1e-4, atol=1e-5)


@pytest.mark.compat
@pytest.mark.parametrize("name", ["waves", "diffusion"])
def test_derivatives_that_jax_takes(name):
    """JAX differentiates an optimized program; passes about storage run at lowering."""
    function = FUNCTIONS[name]
    want = jax.grad(function)(X)
    program = jaxmlir.trace(function)(X).optimize(2)
    fwd, bwd = program.vjp()

    def by_halves(x):
        value, residuals = fwd(x)
        return bwd(residuals, jnp.ones_like(value))[0]

    for g in (jax.grad(program), jax.grad(jaxmlir.jit(function, optimize=2)), by_halves):
        np.testing.assert_allclose(jax.jit(g)(X), want, rtol=1e-4, atol=1e-5)
        traced = jax.jit(g).trace(X)
        for platform in ACCELERATORS:
            assert not marks(traced.lower(lowering_platforms=(platform,)).as_text())
        cpu, *others = branches(traced.lower(lowering_platforms=ALL))
        assert marks(cpu)
        assert others
        assert not any(map(marks, others))
    batch = jax.jit(jax.vmap(program)).trace(np.stack([X, X]))
    assert not marks(batch.lower(lowering_platforms=("tpu",)).as_text())


@pytest.mark.compat
def test_programs_made_of_optimized_programs():
    optimized = jaxmlir.trace(waves)(X).optimize(2)
    within = jaxmlir.trace(lambda x: 2 * optimized(x))(X)
    stacked = optimized.vmap(axis_size=2)
    inner = jaxmlir.jit(waves, optimize=2)
    outer = jaxmlir.jit(lambda x: inner(x) + jnp.sum(jnp.sin(x)), optimize=2)
    x = np.stack([X, X])
    cases = [
        (jax.jit(within), X, jnp.asarray(2 * waves(X))),
        (jax.jit(within.grad()), X, 2 * jax.grad(waves)(X)),
        (jax.jit(stacked), x, jnp.stack([waves(X), waves(X)])),
        (jax.jit(optimized.run_passes("jaxpr-cse")), X, waves(X)),
        (jax.jit(outer), X, waves(X) + jnp.sum(jnp.sin(X))),
    ]
    for compiled, argument, want in cases:
        np.testing.assert_allclose(compiled(argument), want, rtol=1e-4, atol=1e-4)
        lowered = compiled.trace(argument).lower(lowering_platforms=("tpu",))
        assert not marks(lowered.as_text())


@pytest.mark.compat
def test_results_that_nobody_uses():
    """JAX drops unused results before it lowers: they are dropped from each version."""

    def both(x, y):
        return waves(x), diffusion(y)

    for compiled in (jaxmlir.trace(both)(X, X).optimize(2), jaxmlir.jit(both, optimize=2)):
        for number in (0, 1):
            one = jax.jit(lambda x, y, n=number, f=compiled: f(x, y)[n])
            lowered = one.trace(X, X).lower(lowering_platforms=("tpu",))
            assert not marks(lowered.as_text())
            exported = export.export(one, platforms=ALL)(X, X)
            np.testing.assert_allclose(exported.call(X, X), both(X, X)[number], rtol=1e-4)
            grad = jax.jit(jax.grad(one)).trace(X, X).lower(lowering_platforms=("tpu",))
            assert not marks(grad.as_text())


class InOrder(effects.Effect):
    """The effect of ops that must run in order."""

    def __str__(self):
        return "InOrder"


IN_ORDER = InOrder()
effects.ordered_effects.add_type(InOrder)
effects.lowerable_effects.add_type(InOrder)
tick_p = core.Primitive("test_tick")
tick_p.def_effectful_abstract_eval(lambda x: (x, {IN_ORDER}))


def _lower_tick(ctx, x):
    ctx.set_tokens_out(ctx.tokens_in)
    return [x]


mlir.register_lowering(tick_p, _lower_tick)


@pytest.mark.compat
def test_ordered_effects_on_several_platforms():
    program = jaxmlir.trace(lambda x: ripples(tick_p.bind(tick_p.bind(x))))(X).optimize(2)
    cpu, others = branches(program.lower(ALL))
    assert marks(cpu)
    assert not marks(others)


@pytest.mark.compat
def test_symbolic_sizes_on_several_platforms():
    (n,) = export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n, 256), np.float32)
    program = jaxmlir.trace(waves)(shape).optimize(2)
    exported = export.export(jax.jit(program), platforms=ALL)(shape)
    np.testing.assert_allclose(exported.call(X), waves(X), rtol=1e-4)
    assert not marks(text(program.specialize(X), "tpu"))


@pytest.mark.compat
def test_the_backend_switch():
    with backend.enabled(pipeline=level_pipeline(2)):
        traced = jax.jit(ripples).trace(X)
        assert not marks(traced.lower(lowering_platforms=("tpu",)).as_text())
        cpu, others = branches(traced.lower(lowering_platforms=ALL))
        np.testing.assert_allclose(jax.jit(ripples)(X), ripples(X), rtol=1e-4)
    assert marks(cpu)
    assert not marks(others)


# --- given targets, and what is kept -------------------------------------------------------------


@pytest.mark.compat
def test_a_target_that_is_given_is_kept():
    program = jaxmlir.trace(waves)(X)
    for made in (
        program.optimize(2, target="tpu:v5e"),
        program.optimize(2).optimize(2, target="tpu"),
        program.optimize(2, target="tpu").optimize(2),
        gradient(program, target="cuda"),
        program.optimize(2, target="tpu", without=STORAGE).grad().optimize(2),
    ):
        assert not marks(text(made, "cpu"))
    assert marks(text(gradient(program, target="cpu"), "tpu"))
    for_tpu = jaxmlir.jit(jax.grad(waves), optimize=2, target="tpu")
    assert not marks(jax.jit(for_tpu).lower(X).as_text())


def test_a_version_is_made_once():
    program = jaxmlir.trace(waves)(X).optimize(2)
    tpu = targets.target("tpu")
    assert program.version(tpu) is program.version(targets.target("tpu"))
    assert program.version(targets.target("cpu")) is program
    assert program.version(tpu).version(targets.target("cpu")) is program.version(tpu)


def test_a_changed_program_is_what_it_is():
    program = jaxmlir.trace(waves)(X).optimize(2)
    program.changed()
    assert text(program, "tpu") == text(program, "cpu")


def test_a_copy_has_the_same_versions():
    import copy

    program = jaxmlir.trace(waves)(X).optimize(2)
    assert text(copy.copy(program), "tpu") == text(program, "tpu")


def test_a_failing_pass_names_itself_where_a_version_is_made():
    class FailsOnTpu(Pass):
        """Fails on a TPU."""

        name = "test-fails-on-tpu"
        compilers = ("tpu",)

        def run(self, program):
            raise ValueError("no")

    program = jaxmlir.trace(waves)(X).optimize(2).run_passes("test-fails-on-tpu")
    text(program, "cpu")
    with pytest.raises(Exception, match="test-fails-on-tpu") as info:
        text(program, "tpu")
    assert isinstance(info.value, PassError) or "PassError" in repr(info.value.__cause__)
