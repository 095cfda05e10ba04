"""Where the tests run: on CPU, with eight devices, whatever accelerator the machine has.

Both settings are read once, when JAX starts, so they have to be in the environment before any
test module imports JAX.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

_DEVICES = "--xla_force_host_platform_device_count=8"
if _DEVICES not in os.environ.get("XLA_FLAGS", "").split():
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}".strip()
