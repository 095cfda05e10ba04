"""Where the tests run: on CPU, with eight devices, whatever accelerator the machine has.

Most programs are compiled to be run once, so LLVM does not spend time on making them fast; XLA's
own passes run as always.  The settings are read once, when JAX starts, so they have to be in the
environment before any test module imports JAX.
"""

import os

import hypothesis
import round_trip

# Every run tries the same examples: a change is judged by what it changes.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")

os.environ["JAX_PLATFORMS"] = "cpu"

_FLAGS = (
    "--xla_force_host_platform_device_count=8",
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
)
_given = os.environ.get("XLA_FLAGS", "").split()
os.environ["XLA_FLAGS"] = " ".join(dict.fromkeys([*_given, *_FLAGS]))


def pytest_addoption(parser):
    parser.addoption(
        "--through",
        choices=round_trip.WAYS,
        default=round_trip.WAYS[0],
        help="how tests write programs down and read them back",
    )


def pytest_configure(config):
    # In the environment, for the workers of pytest-xdist.
    os.environ[round_trip.VARIABLE] = config.getoption("--through")
