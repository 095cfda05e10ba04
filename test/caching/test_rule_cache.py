"""The cache of JAX's rules on disk: later processes find its entries, results do not change, and
some results are never cached."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir._compat import ad
from jaxmlir.caching import rule_cache
from jaxmlir.caching.rule_cache import RuleFiles, digest

HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.compat


def run(code, cache, *, check=True, **environment):
    """The output of a fresh process with its rule cache in a directory."""
    env = {**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE}", "JAXMLIR_CACHE_DIR": str(cache)}
    env.pop("PYTHONHASHSEED", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={name: value for name, value in {**env, **environment}.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def written(cache):
    """The files below a directory."""
    return [path for path in Path(cache).rglob("*") if path.is_file()]


COUNT = """
from jaxmlir.caching import rule_cache
files = rule_cache.kept_files()
print("hits", files.hits, "misses", files.misses)
"""


def counts(output):
    """The counts that ``COUNT`` printed, and the output before them."""
    text, _, line = output.rpartition("hits ")
    hits, _, misses = line.split()
    return text, int(hits), int(misses)


# -- the same programs --

PROGRAMS = """
import hashlib, sys
import jax, jaxmlir
from jaxmlir.caching import rule_cache
from programs import PROGRAMS

# A process that takes minutes writes several files, makes one of them, and finds its own entries.
rule_cache.INTERVAL = float("inf")

# Rules of JAX's for these call functions of jax.numpy, whose equations are for good where JAX
# traces the functions first: in a rule that is run, or elsewhere.
TRACED_BY_RULES = {"special_functions"}

def show(module):
    print(module)
    if name not in TRACED_BY_RULES:
        located = module.operation.get_asm(enable_debug_info=True, use_local_scope=True)
        print("@ located", hashlib.sha256(located.encode()).hexdigest())

modules = ("derivatives", "numerics")
chosen = [n for n, make in PROGRAMS.items() if make.__module__.rpartition(".")[2] in modules]
programs = {}
for name in chosen[::2]:
    function, args = PROGRAMS[name]()
    programs[name] = jaxmlir.trace(function)(*args)

steps = {
    "backward": lambda p: p.vjp()[1],
    "vmap": lambda p: p.vmap(axis_size=3),
}
for name, program in programs.items():
    for step, transform in steps.items():
        print("==", name, step)
        try:
            new = transform(program)
            show(new.module)
            show(new.lower().compiler_ir())
        except jaxmlir.errors.JaxmlirError as e:
            print(e)
"""


def test_programs_are_the_same(tmp_path):
    plain = run(PROGRAMS, "")
    cold, hits, misses = counts(run(PROGRAMS + COUNT, tmp_path))
    assert hits == 0
    assert misses > 1000
    warm, hits, misses = counts(run(PROGRAMS + COUNT, tmp_path))
    assert cold == warm
    # Without the cache, locations contain the callers of the first use.
    assert _without_locations(plain) == _without_locations(cold)
    assert cold.count("@ located") > 50
    assert hits > 1000
    # Only results that belong to one program, or to this process, are misses.
    assert misses < hits / 20


def _without_locations(text):
    return [line for line in text.splitlines() if not line.startswith("@ located")]


LAYERS = """
import os, sys
import jax, jax.numpy as jnp
import jaxmlir

def loss(parameters, x):
    for w in parameters:
        x = jax.nn.gelu(x @ w) + jax.nn.softmax(x * 1.5)
    return jnp.mean(jnp.sum(x ** 2, -1))

def texts(size):
    program = jaxmlir.trace(loss)([jnp.ones((size, size))] * 2, jnp.ones((3, size)))
    for new in (program.grad(), program.vmap((None, 0), axis_size=2), program.linearize()[1]):
        print(new.as_text(), new.lower().as_text())
"""


OPTIMIZED = """
import sys
import jax, jaxmlir, numpy as np
import jax.numpy as jnp

def plain(w, x):
    def step(h, row):
        return jnp.tanh(h @ w + row), h.sum()
    return jnp.sum(jax.lax.scan(step, x[0], x)[1] ** 2)

def with_rules(w, x):
    return jnp.sum(jax.nn.relu(x @ w @ w))

def of_keys(w, x):
    return jnp.sum(w * jax.random.normal(jax.random.key(3), w.shape))

heard = []
args = np.eye(4, dtype="f"), np.ones((5, 4), "f")
for function in (plain, with_rules, of_keys)[: int(NUMBER)]:
    found = jaxmlir.jit(jax.grad(function), optimize=2, remarks=LISTENER)
    lowered = found.lower(*args)
    # Numbers of what JAX has made unlike names.
    print(lowered.compiler_ir().operation.get_asm(enable_debug_info=True, use_local_scope=True))
    print(jax.tree.map(np.asarray, lowered.compile()(*args)))
print("passes", "jaxmlir.optimize.algebra.reassociate" in sys.modules, len(heard))
"""


@pytest.mark.parametrize("number", [1, 3])
def test_optimized_programs_are_the_same(tmp_path, number):
    code = OPTIMIZED.replace("NUMBER", str(number))
    silent = code.replace("LISTENER", "None")
    cold, hits, _ = counts(run(silent + COUNT, tmp_path))
    warm, found, misses = counts(run(silent + COUNT, tmp_path))
    assert (hits, misses) == (0, 0) and found > 20
    assert cold.rpartition("passes")[0] == warm.rpartition("passes")[0]
    # Programs with custom rules are optimized again; for the others no pass is even imported.
    assert cold.endswith("passes True 0\n")
    assert warm.endswith(f"passes {number == 3} 0\n")
    # A listener for remarks gets those of running passes, so cached results are not used.
    heard = run(code.replace("LISTENER", "heard.append"), tmp_path)
    assert heard.splitlines()[-1] not in ("passes True 0", "passes False 0")


def test_all_that_is_kept_is_used(tmp_path):
    first = run(LAYERS + "texts(4)" + COUNT, tmp_path)
    before = written(tmp_path)
    second, hits, misses = counts(run(LAYERS + "texts(4)" + COUNT, tmp_path))
    assert counts(first)[0] == second
    assert hits > 100
    assert misses == 0
    assert written(tmp_path) == before


def test_pointwise_ops_of_another_shape(tmp_path):
    code = """
import jax, jax.numpy as jnp, jaxmlir
def f(x):
    return jnp.sum(jnp.tanh(jnp.sin(x) * jnp.exp(x)))
def texts(n):
    gradient = jaxmlir.trace(f)(jnp.ones(n)).grad()
    print(gradient.as_text(), gradient.lower().as_text())
"""
    run(code + "texts(3)", tmp_path)
    text, hits, misses = counts(run(code + "texts(5)" + COUNT, tmp_path))
    assert text == run(code + "texts(5)", "")
    assert hits > misses > 0


def test_loading_writes_nothing(tmp_path):
    path = tmp_path / "program.jaxmlir"
    jaxmlir.trace(lambda x: x * x)(1.0).save(path)
    cache = tmp_path / "cache"
    run(f"import jaxmlir; jaxmlir.load({str(path)!r}).verify()", cache)
    assert not cache.exists()


def test_a_process_that_is_killed_has_written_its_first_program(tmp_path):
    code = LAYERS + "texts(4); import signal; os.kill(os.getpid(), signal.SIGKILL)"
    run(code, tmp_path, check=False)
    _, hits, _ = counts(run(LAYERS + "texts(4)" + COUNT, tmp_path))
    assert hits > 50


def test_processes_that_are_forked(tmp_path):
    """Forked processes write only their own results, not those from before the fork."""
    code = """
import os, jax, jax.numpy as jnp, jaxmlir
from jaxmlir.caching import rule_cache
def grad(f):
    return jaxmlir.trace(f)(jnp.float32(1)).grad()
grad(jnp.sin)
files = rule_cache.kept_files()
assert files.waiting
pid = os.fork()
if pid == 0:
    assert not files.waiting
    grad(jnp.cosh)
    made = files.waiting
    files.write()
    os._exit(0 if made else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    run(code, tmp_path)
    assert len(written(tmp_path)) == 2


# -- where --


def test_off(tmp_path):
    code = f"import os; os.chdir({str(tmp_path)!r})\n" + LAYERS + "texts(3)"
    run(code, "", HOME=str(tmp_path))
    run(code, "", HOME=str(tmp_path), JAXMLIR_CACHE_DIR=None)
    assert not written(tmp_path)


def test_files_are_the_users_alone(tmp_path):
    run(LAYERS + "texts(3)", tmp_path / "cache")
    for file in written(tmp_path):
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700


def test_no_directory(tmp_path):
    """A directory that cannot be created is not an error."""
    (tmp_path / "file").write_text("")
    expected = run(LAYERS + "texts(3)", "")
    assert run(LAYERS + "texts(3)", tmp_path / "file" / "below") == expected
    assert run(LAYERS + "texts(3)", "/proc/none") == expected


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_read_only_directory(tmp_path):
    run(LAYERS + "texts(3)", tmp_path)
    before = written(tmp_path)
    for path in (tmp_path, *tmp_path.iterdir()):
        path.chmod(0o500)
    _, hits, _ = counts(run(LAYERS + "texts(4)" + COUNT, tmp_path))
    assert hits
    assert written(tmp_path) == before


# -- damage --


def entries(count, tag="entry"):
    return {digest(f"{tag} {i}".encode()): f"{tag} {i} {'x' * i}".encode() for i in range(count)}


def write(directory, values):
    files = RuleFiles(str(directory))
    for key, value in values.items():
        files.add(key, lambda value=value: value)
    files.write()


def read(directory, values):
    """The values that are found."""
    files = RuleFiles(str(directory))
    found = {key: files.find(key) for key in values}
    assert files.hits + files.misses == len(values)
    return {key: value for key, value in found.items() if value is not None}


def test_files(tmp_path):
    values = entries(20)
    write(tmp_path, values)
    assert read(tmp_path, values) == values
    assert read(tmp_path, entries(3, "other")) == {}
    files = RuleFiles(str(tmp_path))
    files.add(b"k" * 16, lambda: None)
    files.write()
    assert not files.waiting
    assert len(written(tmp_path)) == 1


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


@pytest.mark.parametrize("damage", [flipped, lambda data, size: data[:size]])
def test_damaged_files(tmp_path, damage):
    values = entries(6)
    write(tmp_path, values)
    (path,) = written(tmp_path)
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(damage(data, place))
        assert read(tmp_path, values).items() < values.items()


def test_what_is_no_file_of_ours(tmp_path):
    values = entries(6)
    write(tmp_path, values)
    (tmp_path / "folder.rules").mkdir()
    (tmp_path / "text.rules").write_text("not rules\n" * 100)
    (tmp_path / "empty.rules").write_text("")
    (tmp_path / "link.rules").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.rules")
    assert read(tmp_path, values) == values
    for number in range(rule_cache.MAX_FILES):
        write(tmp_path, entries(2, f"more {number}"))
    assert read(tmp_path, values) == values


def test_a_file_that_others_may_write_to(tmp_path):
    values = entries(6)
    write(tmp_path, values)
    (path,) = written(tmp_path)
    path.chmod(0o620)
    assert read(tmp_path, values) == {}
    path.chmod(0o600)
    assert read(tmp_path, values) == values
    if os.getuid() == 0:
        os.chown(path, 12345, -1)
        assert read(tmp_path, values) == {}


def test_damaged_for_a_process(tmp_path):
    expected = run(LAYERS + "texts(3)", tmp_path)
    for path in written(tmp_path):
        data = bytearray(path.read_bytes())
        for place in range(len(data) // 4, len(data), 97):
            data[place] ^= 0xFF
        path.write_bytes(data)
    text, _, misses = counts(run(LAYERS + "texts(3)" + COUNT, tmp_path))
    assert text == expected
    assert misses


# -- many files, and many writers --


def test_many_files_become_one(tmp_path, monkeypatch):
    values = {}
    for number in range(3 * rule_cache.MAX_FILES):
        new = entries(5, f"from {number}")
        write(tmp_path, new)
        values |= new
        assert read(tmp_path, values) == values
        assert len(written(tmp_path)) <= rule_cache.MAX_FILES
    (tmp_path / "old.rules.new").write_text("")
    (tmp_path / "young.rules.new").write_text("")
    os.utime(tmp_path / "old.rules.new", (0, 0))
    # The oldest entries are evicted.
    monkeypatch.setattr(rule_cache, "MAX_BYTES", 500)
    for number in range(rule_cache.MAX_FILES):
        write(tmp_path, entries(5, f"at last {number}"))
    assert not (tmp_path / "old.rules.new").exists()
    assert (tmp_path / "young.rules.new").exists()
    found = read(tmp_path, values)
    assert len(found) < len(values)
    last = entries(5, f"at last {number}")
    assert read(tmp_path, last) == last


WRITER = """
import sys
from test_rule_cache import entries, write
for number in range(int(sys.argv[2])):
    write(sys.argv[1], entries(20, f"{sys.argv[3]} {number}"))
"""


def writer(directory, count, tag):
    env = {**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE}"}
    command = [sys.executable, "-c", WRITER, str(directory), str(count), tag]
    return subprocess.Popen(command, env=env)


def test_several_processes_write_at_once(tmp_path):
    writers = [writer(tmp_path, 40, tag) for tag in "abc"]
    assert [process.wait(120) for process in writers] == [0, 0, 0]
    for tag in "abc":
        for number in range(40):
            values = entries(20, f"{tag} {number}")
            assert read(tmp_path, values) == values


def test_a_file_that_goes_while_files_are_listed(tmp_path, monkeypatch):
    listed = os.scandir

    class Gone:
        name = "gone.rules"

        def stat(self, **_):
            raise FileNotFoundError

    @contextlib.contextmanager
    def with_another(directory):
        with listed(directory) as entries:
            yield [Gone(), *entries]

    write(tmp_path, entries(5, "before"))
    monkeypatch.setattr(os, "scandir", with_another)
    write(tmp_path, entries(5))
    assert read(tmp_path, entries(5)) == entries(5)
    assert read(tmp_path, entries(5, "before")) == entries(5, "before")


def test_killed_while_writing(tmp_path):
    for attempt in range(3):
        process = writer(tmp_path, 10**6, f"killed {attempt}")
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*.rules")) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
    values = entries(20, "killed 0 0")
    assert read(tmp_path, values) == values
    write(tmp_path, entries(5, "after"))
    assert read(tmp_path, entries(5, "after")) == entries(5, "after")


# -- what tells keys apart --


def test_versions(tmp_path, monkeypatch):
    sources = tmp_path / "package"
    (sources / "inner").mkdir(parents=True)
    (sources / "inner" / "module.py").write_text("x = 1\n")
    before = [*rule_cache.sources_in(str(sources))]
    (sources / "__pycache__").mkdir()
    (sources / "__pycache__" / "module.py").write_text("")
    assert [*rule_cache.sources_in(str(sources))] == before
    (sources / "inner" / "module.py").write_text("x = 2\n")
    os.utime(sources / "inner" / "module.py", ns=(1, 1))
    assert [*rule_cache.sources_in(str(sources))] != before
    key = rule_cache.version_key()
    monkeypatch.setattr(np, "__version__", "another")
    assert rule_cache.version_key() != key

    cache = tmp_path / "cache"
    other = "from jaxmlir.caching import rule_cache\nrule_cache.version_key = lambda: 'another'\n"
    run(LAYERS + "texts(3)", cache)
    _, hits, _ = counts(run(other + LAYERS + "texts(3)" + COUNT, cache))
    assert hits == 0
    assert len(list(cache.iterdir())) == 2


def test_old_versions_go(tmp_path):
    for number in range(12):
        folder = tmp_path / f"rules-{number}"
        folder.mkdir()
        os.utime(folder, (number, number))
    (tmp_path / "something").mkdir()
    rule_cache.drop_versions(str(tmp_path))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted(["something", *(f"rules-{n}" for n in range(5, 12))])


CONFIGURED = """
import jax, jax.numpy as jnp, jaxmlir
def f(x, y):
    return jnp.sum(jnp.sin(x @ y) * 2)
program = jaxmlir.trace(f)(jnp.ones((2, 2)), jnp.ones((2, 2)))
print(program.grad().as_text(), program.grad().lower().as_text())
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    "variable, value",
    [
        ("JAX_ENABLE_X64", "1"),
        ("JAX_DEFAULT_MATMUL_PRECISION", "highest"),
        ("JAX_NUMPY_DTYPE_PROMOTION", "strict"),
    ],
)
def test_configuration(tmp_path, variable, value):
    run(CONFIGURED, tmp_path)
    text, hits, misses = counts(run(CONFIGURED + COUNT, tmp_path, **{variable: value}))
    assert text == run(CONFIGURED, "", **{variable: value})
    assert (hits, misses > 10) == (0, True)
    _, hits, _ = counts(run(CONFIGURED + COUNT, tmp_path))
    assert hits > 10


def test_contexts(tmp_path):
    """Nothing is cached in a context that cannot be part of a key."""
    code = """
import jax, jax.numpy as jnp, jaxmlir
from jax._src import config
from jaxmlir.caching import rule_cache
assert rule_cache.current() is not None
plain = jaxmlir.trace(jnp.sin)(1.0)
with jax.set_mesh(jax.make_mesh((1,), ("x",))):
    assert rule_cache.current() is None
    plain.grad().lower()
assert not rule_cache.kept_files().waiting
with jax.numpy_dtype_promotion("strict"):
    assert rule_cache.current() is not None
"""
    run(code, tmp_path)
    assert not written(tmp_path)


# -- whose rules --

SINE = """
import jax, jax.numpy as jnp, jaxmlir
from jax import lax
from jax._src.interpreters import ad, batching, mlir
def f(x):
    return lax.sin(x) * 2
def show(n=3):
    program = jaxmlir.trace(lambda x: jnp.sum(f(x)))(jnp.ones(n))
    vmapped = program.vmap(axis_size=2)
    print(program.grad().as_text(), program.grad().lower().as_text())
    print(vmapped.as_text(), vmapped.lower().as_text())
"""
OTHER_RULES = {
    "jvp": """
ad.primitive_linearizations.pop(lax.sin_p, None)
ad.defjvp(lax.sin_p, lambda t, x, **_: t * 7)""",
    "batch": """
def rule(args, dims, **_):
    return lax.mul(lax.sin(args[0]), lax.full_like(args[0], 7)), dims[0]
batching.primitive_batchers[lax.sin_p] = rule""",
    "lowering": """
mlir.register_lowering(lax.sin_p, mlir.lower_fun(lambda x, **_: x + 7, multiple_results=False))""",
    "transpose": """
ad.fancy_transposes.pop(lax.mul_p, None)
ad.primitive_transposes[lax.mul_p] = lambda ct, x, y, **_: (
    [ct * y * 7, None] if ad.is_undefined_primal(x) else [None, ct * x * 7])""",
}


@pytest.fixture(scope="module")
def sine(tmp_path_factory):
    """A directory with the cached rules of a sine, and the output of the process."""
    cache = tmp_path_factory.mktemp("sine")
    return cache, run(SINE + "show()", cache)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", OTHER_RULES)
def test_a_rule_of_a_users_for_a_primitive_of_jax(sine, tmp_path, kind):
    """The rule is used despite cached results, also if it is registered after the first read; and
    its results are cached for no other rule."""
    filled, plain = sine
    cache = tmp_path / "cache"
    shutil.copytree(filled, cache)
    code = f"{SINE}jaxmlir.trace(lax.cos)(1.0).grad().lower()\n{OTHER_RULES[kind]}\nshow()"
    expected = run(code, "")
    assert expected != plain
    assert run(code, cache) == expected
    assert run(SINE + "show()", cache) == plain
    again = code.replace("7", "5")
    expected_again = run(again, "")
    assert expected_again != expected
    assert run(again, cache) == expected_again


def test_another_rule_does_not_end_the_cache(tmp_path):
    """Lineax registers a transpose where JAX has none."""
    code = """
from jax._src.ad_util import stop_gradient_p
from jax.interpreters import ad
ad.primitive_transposes[stop_gradient_p] = lambda ct, x: (ct,)
"""
    run(code + LAYERS + "texts(3)", tmp_path)
    _, hits, misses = counts(run(code + LAYERS + "texts(3)" + COUNT, tmp_path))
    assert hits > 100
    assert misses < 5


def test_primitives_of_a_users(tmp_path):
    code = """
import jax, jax.numpy as jnp, jaxmlir
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
twice_p = Primitive("twice")
twice_p.def_abstract_eval(lambda x: x)
twice_p.def_impl(lambda x: x * FACTOR)
ad.deflinear(twice_p, lambda ct: [twice_p.bind(ct)])
batching.defvectorized(twice_p)
mlir.register_lowering(
    twice_p, mlir.lower_fun(lambda x: x * jnp.float32(FACTOR), multiple_results=False))
program = jaxmlir.trace(twice_p.bind)(jnp.float32(3))
for new in (program.grad(), program.vmap(axis_size=3), program.jvp()):
    print(new.as_text(), new.lower().as_text())
"""
    run(code.replace("FACTOR", "2"), tmp_path)
    text, _, misses = counts(run(code.replace("FACTOR", "3") + COUNT, tmp_path))
    assert text == run(code.replace("FACTOR", "3"), "")
    assert b"twice" not in b"".join(path.read_bytes() for path in written(tmp_path))


READ_BY_RULES = {
    "cell": "rule = made(FACTOR)",
    "default": "rule = lambda *args, k=FACTOR, **params: scaled(k, *args, **params)",
    "global": "NUMBER = FACTOR\nrule = lambda *args, **params: scaled(NUMBER, *args, **params)",
    "array": "rule = made(jnp.float32(FACTOR))",
}


@pytest.mark.sampled
@pytest.mark.parametrize("rule", READ_BY_RULES.values(), ids=READ_BY_RULES)
def test_what_a_users_rule_of_a_primitive_of_jaxs_reads(rule, tmp_path):
    """The rule of another primitive uses the user's rule."""
    code = f"""
import jax.numpy as jnp, jaxmlir
from jax import lax
from jax.interpreters import ad
jaxs = ad.primitive_jvps[lax.mul_p]
def scaled(factor, primals, tangents, **params):
    value, tangent = jaxs(primals, tangents, **params)
    return value, tangent if type(tangent) is ad.Zero else lax.mul(tangent, 1.0 * factor)
def made(factor):
    return lambda *args, **params: scaled(factor, *args, **params)
{rule}
ad.primitive_jvps[lax.mul_p] = rule
x = jnp.arange(1.0, 4.0)
print(jaxmlir.trace(lax.cumprod)(x).jvp()((x,), (x,))[1])
"""
    assert run(code.replace("FACTOR", "2"), tmp_path) == "[ 1.  8. 60.]\n"
    assert run(code.replace("FACTOR", "3"), tmp_path) == "[  1.  12. 126.]\n"


def test_code_of_libraries(tmp_path):
    """The lowering rule registers a library's code with XLA, and emits the call."""
    code = """
import jax, jax.numpy as jnp, jaxmlir
program = jaxmlir.trace(jnp.linalg.cholesky)(jnp.eye(3) * 4)
print(program(jnp.eye(3) * 4)[1, 1])
"""
    assert [run(code, tmp_path) for _ in range(2)] == ["2.0\n"] * 2


def test_functions_that_are_not_jaxs():
    def mine(x):
        return x

    assert not rule_cache.foreign([ad.linear_jvp, functools.partial(ad.linear_jvp, lax.neg_p)])
    for function in (mine, functools.partial(ad.linear_jvp, mine), (ad.linear_jvp, [mine])):
        assert rule_cache.foreign([function]) == [mine]
    for wrapped in (jax.custom_jvp(mine), jax.jit(mine)):
        assert rule_cache.foreign([wrapped]) == [wrapped]


def test_configurations_are_told_apart_by_the_order_of_their_parts():
    assert rule_cache.plain_key((True, False)) != rule_cache.plain_key((False, True))
    assert rule_cache.plain_key(frozenset("ab")) == rule_cache.plain_key(frozenset("ba"))
