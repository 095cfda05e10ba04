"""Where the tests run: on CPU, with eight devices, whatever accelerator the machine has.

Both settings are read once, when JAX starts, so they have to be in the environment before any
test module imports JAX.
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

# Every run tries the same examples: a change is judged by what it changes.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("repeatable")

os.environ["JAX_PLATFORMS"] = "cpu"

# Nothing is read that another version of the package has kept.
os.environ.pop("JAXMLIR_CACHE_DIR", None)

# What a test compiles runs once, on little data, so the machine code need not be good, and XLA
# spends less than half the time where it need not be.  XLA's passes over a program, which are what
# programs are written for, are all there; the lit tests run what users run.
_FLAGS = [
    "--xla_force_host_platform_device_count=8",
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    # Parts for several threads cost a quarter of the time, and it is the workers that are parallel.
    "--xla_cpu_parallel_codegen_split_count=1",
]
if metadata.version("jax").startswith("0.10."):
    # Newer ones have no such choice.
    _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
# Behind them, so that a flag that is set already has the last word.
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
    # In the environment, for the workers of pytest-xdist.
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
    """Some of the names, at least one: not the same column of each table of cases."""
    numbers = {name: zlib.crc32(name.encode()) for name in names}
    chosen = [name for name, number in numbers.items() if number % one_in == 0]
    return chosen or [min(numbers, key=numbers.get)]


def pytest_collection_finish():
    # What has been imported stays: the collector need not look at it again and again.  What tests
    # leave is soon more than the few objects after which it runs by default, and is freed in time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def same_numbers(request):
    """A test draws the same numbers from its module's ``RNG``, whichever tests ran before it."""
    generator = getattr(request.module, "RNG", None)
    if generator is not None:
        generator.seed(0)


# A worker frees what it holds above so many bytes, which is compiled again: its peak, which tests
# beside it share the machine with, is to stay under 2 GiB.
_MEMORY = 3 << 29


@pytest.fixture(scope="session")
def memory_limit():
    return [_MEMORY]


@pytest.fixture(autouse=True)
def bounded_memory(memory_limit):
    """Frees what JAX has compiled, where a worker has grown large."""
    yield
    if _resident() > memory_limit[0]:
        jax = sys.modules.get("jax")
        if jax is not None:
            jax.clear_caches()
        gc.collect()
        # The C library keeps what is freed between what is not.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        # What is held still is in use.
        memory_limit[0] = max(_MEMORY, 3 * _resident() // 2)


def _resident():
    """The bytes of memory that this process holds, as far as the system tells."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="session", autouse=True)
def passes_tell_the_truth():
    """Fails where a pass says that it left a program as it was, and did not."""
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
