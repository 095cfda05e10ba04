"""Configures pytest: tests run on eight CPU devices, whatever accelerator the machine has.

JAX reads both settings once, when it starts, so they must be in the environment before any test
module imports JAX.
"""

import collections
import contextlib
import ctypes
import gc
import os
import sys
import zlib
from importlib import metadata
from pathlib import Path

import hypothesis
import pytest
import round_trip
import sampling

# Every run tries the same examples, so that a failure is due to a change.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("repeatable")

os.environ["JAX_PLATFORMS"] = "cpu"

# Disable the persistent cache, which may hold results of another version of the package.
os.environ.pop("JAXMLIR_CACHE_DIR", None)

# Compiled tests run once, on little data, so their machine code need not be fast: without its
# optimization XLA takes less than half the time.  All of XLA's passes over HLO, which programs are
# written for, still run.  The lit tests compile as users do.
_FLAGS = [
    "--xla_force_host_platform_device_count=8",
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    # Splitting code for several threads costs a quarter of the time; the workers are parallel.
    "--xla_cpu_parallel_codegen_split_count=1",
]
if metadata.version("jax").startswith("0.10."):
    # Newer versions have no such option.
    _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
# Flags that are already set come last, so that they take precedence.
os.environ["XLA_FLAGS"] = " ".join([*_FLAGS, os.environ.get("XLA_FLAGS", "")])


def pytest_addoption(parser):
    parser.addoption(
        "--through",
        choices=round_trip.WAYS,
        default=round_trip.WAYS[0],
        help="how tests write programs down and read them back",
    )
    parser.addoption(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="of the cases of each test, about one in N and at least one; always the same ones",
    )
    parser.addoption(
        "--tests",
        type=int,
        default=1,
        metavar="N",
        help="of the tests, about one in N; always the same ones",
    )
    parser.addoption(
        "--whole",
        action="store_true",
        help=(
            f"all cases of tests marked `sampled`, of which one in {sampling.CASES} is run without"
            " it, and all examples of properties"
        ),
    )


def pytest_configure(config):
    # Workers of pytest-xdist read these from the environment.
    os.environ[round_trip.VARIABLE] = config.getoption("--through")
    os.environ[sampling.VARIABLE] = str(int(config.getoption("--whole")))


def pytest_collection_modifyitems(config, items):
    every, whole = config.getoption("--every"), config.getoption("--whole")
    cases = collections.defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    chosen = set()
    for test in _spread_out(cases, config.getoption("--tests")):
        by_name = {item.nodeid: item for item in cases[test]}
        mark = None if whole else cases[test][0].get_closest_marker("sampled")
        one_in = every if mark is None else max(every, *mark.args, sampling.CASES)
        chosen.update(by_name[name] for name in _spread_out(by_name, one_in))
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _spread_out(names, one_in):
    """Chooses names by their hash, at least one: not the same column of each table of cases."""
    numbers = {name: zlib.crc32(name.encode()) for name in names}
    chosen = [name for name, number in numbers.items() if number % one_in == 0]
    return chosen or [min(numbers, key=numbers.get)]


def pytest_collection_finish():
    # Imported objects stay: freeze them, so that the garbage collector skips them.  By default it
    # runs after a few new objects, which tests soon exceed: raise that threshold.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def same_numbers(request):
    """Seeds the module's ``RNG``, so that a test's numbers don't depend on the tests before it."""
    generator = getattr(request.module, "RNG", None)
    if generator is not None:
        generator.seed(0)


# Above so many bytes, a worker clears its caches, although it compiles again then: its peak must
# stay under 2 GiB, as several workers share the machine.
_MEMORY = 3 << 29


@pytest.fixture(scope="session")
def memory_limit():
    return [_MEMORY]


@pytest.fixture(autouse=True)
def bounded_memory(memory_limit):
    """Clears JAX's caches if the worker's memory has grown large."""
    yield
    if _resident() > memory_limit[0]:
        jax = sys.modules.get("jax")
        if jax is not None:
            jax.clear_caches()
        gc.collect()
        # Without this the C library keeps freed blocks that lie between used ones.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        # The remaining memory is in use.
        memory_limit[0] = max(_MEMORY, 3 * _resident() // 2)


def _resident():
    """The resident bytes of this process; 0 if the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="session", autouse=True)
def passes_tell_the_truth():
    """Fails if a pass reports that it left a program unchanged, but has changed it."""
    from jaxmlir.dialect.ir import module_bytecode
    from jaxmlir.passes import pipeline

    run = pipeline.run_pass

    def checked(step, program):
        before, state = module_bytecode(program.module), program.state
        changed = run(step, program)
        if not changed and program.state is state:
            assert module_bytecode(program.module) == before, f"{step.name} changed the program"
        return changed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "run_pass", checked)
        yield
