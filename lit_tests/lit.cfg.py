"""Configuration of the lit tests: `python -c 'from lit.main import main; main()' lit_tests`.

The tools under test are this checkout's, run by the interpreter that runs lit, so nothing has
to be installed but the `test` extra.
"""

# lit executes this file with `config` among its globals.
# ruff: noqa: F821

import atexit
import os
import shutil
import sys
import tempfile
from importlib import metadata

import lit.formats

config.name = "jaxmlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "Output"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
repository = os.path.dirname(config.test_source_root)
config.test_exec_root = os.path.join(repository, ".lit")

config.environment["JAX_PLATFORMS"] = "cpu"
config.environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
config.environment["PYTHONPATH"] = repository
# What rules gave is kept on disk for the commands of this run, and not from one before it.
rules = tempfile.mkdtemp(prefix="jaxmlir-rules-")
atexit.register(shutil.rmtree, rules, ignore_errors=True)
config.environment["JAXMLIR_CACHE_DIR"] = rules


def substitute_tool(name: str, command: str) -> None:
    """Replaces the bare word `name` in RUN lines, not the same letters inside a path."""
    config.substitutions.append((rf"(?<![\w/.%-]){name}(?![\w/.-])", command))


# Quoted, as a checkout's path may hold spaces.
python = f"'{sys.executable}'"
for tool in ("opt", "translate", "run"):
    substitute_tool(f"jaxmlir-{tool}", f"{python} -m jaxmlir.cli.{tool}")
# One pattern for both spellings: a second one would find the module's name in its result.
substitute_tool("(?:FileCheck|filecheck)", f"{python} -m filecheck")
config.substitutions.append(("%python", python))

# Stock MLIR, which knows the dialect only by its generated IRDL definition.
if stock_opt := shutil.which("mlir-opt-22"):
    config.available_features.add("mlir-opt")
    irdl = os.path.join(repository, "jaxmlir", "dialect", "jaxpr.irdl.mlir")
    substitute_tool("mlir-opt-irdl", f"'{stock_opt}' '--irdl-file={irdl}'")

# `REQUIRES: jax-0.12` and the like.
major, minor = metadata.version("jax").split(".")[:2]
config.available_features.add(f"jax-{major}.{minor}")

# Commands are forks of one process that has imported JAX.
sys.path.insert(0, config.test_source_root)
import prefork  # noqa: E402

prefork.use(config, lit_config.params)
