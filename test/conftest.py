"""Where the tests run: on CPU, with eight devices, whatever accelerator the machine has.

Both settings are read once, when JAX starts, so they have to be in the environment before any
test module imports JAX.
"""

import os

import hypothesis
import round_trip

# Every run tries the same examples: a change is judged by what it changes.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")

os.environ["JAX_PLATFORMS"] = "cpu"

_DEVICES = "--xla_force_host_platform_device_count=8"
if _DEVICES not in os.environ.get("XLA_FLAGS", "").split():
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}".strip()


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
