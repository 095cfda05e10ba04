"""Caches the results of pipelines on disk (:mod:`jaxmlir.caching.rule_cache`).

The result of an optimization level depends only on the module, the target and JAX's rules.  So a
later process that optimizes the same module, locations included, reads the result from the cache
and imports none of the passes.  A module is not cached if it refers to objects that only this
process has: Python objects, custom rules that are not traced yet, arrays beside the module, sizes
of another program.  Nor is it if a pass has options, with which it may compile and measure, or if
somebody listens to remarks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import jax

from jaxmlir.caching import disk_cache, is_of_process
from jaxmlir.dialect.ir import module_bytecode, parse_module
from jaxmlir.dialect.module import Module
from jaxmlir.errors import ParseError
from jaxmlir.passes.instrument import Instrumentation
from jaxmlir.passes.remarks import Sink

if TYPE_CHECKING:
    from jaxmlir.caching.rule_cache import RuleCache
    from jaxmlir.passes.pipeline import Pipeline


MOST_BYTES = 4 << 20
"""Longer modules are not cached: they would displace the entries of many ops."""


def run_kept(
    pipeline: Pipeline, program: Module, remarks: Sink | None = None, *, verify_each: bool = False
) -> None:
    """Runs a pipeline on a program in place, or takes the result from the cache.

    Args:
      remarks: takes the remarks of the passes.
      verify_each: run all passes, and verify after each of them.

    Raises:
      JaxmlirError: as :meth:`Pipeline.run`.
    """
    cacheable = remarks is None and not verify_each and pipeline.is_plain
    cache = disk_cache() if cacheable else None
    key = None if cache is None else _key(cache, pipeline, program)
    if cache is None or key is None:
        pipeline.run(program, Instrumentation(verify_each=verify_each, remarks=remarks))
        return
    cached = cache.find(key)
    if cached is not None:
        try:
            program.module = parse_module(cached)
        except ParseError:
            pass
        else:
            program.changed()
            return
    pipeline.run(program, Instrumentation(verify_each=False))
    code = _code(program)
    if code is not None and len(code) <= MOST_BYTES:
        cache.keep(key, lambda: code)


def _key(cache: RuleCache, pipeline: Pipeline, program: Module) -> bytes | None:
    """The cache key of a pipeline's result; ``None`` if it must not be cached."""
    code = None if cache.without else _code(program)
    if code is None:
        return None
    # Constants are folded on the default device.
    device = jax.devices()[0]
    flags = os.environ.get("XLA_FLAGS", "")
    compiler = f"{device.client.platform_version} {device.device_kind} {flags}"
    return cache.key("passes", str(pipeline), repr(program.target), compiler, code.hex())


def _code(program: Module) -> bytes | None:
    """The bytecode of a program that consists of its module alone; ``None`` for others."""
    with_more = (
        program.rule_tracing.table is not None
        or program.sizes_scope is not None
        or program.custom_calls is not None
        or program.constants
        or program.handles
    )
    if with_more:
        return None
    code = module_bytecode(program.module_as_is)
    return None if is_of_process(code) else code
