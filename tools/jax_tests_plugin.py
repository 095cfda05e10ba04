"""Pytest plugin of ``jax_tests.py``: records each test, so that a run can be watched and resumed.

``JAX_TESTS_CHECKOUT`` is JAX's repository.  Test utilities that the installed package lacks are
imported from there.  ``JAX_TESTS_RECORD`` names a file of JSON lines: ``{"collected": n, "of":
m}``, then for each test ``{"start": id}`` and ``{"id", "outcome", "wall", "cpu", "why"}``.  Every
``JAX_TESTS_EVERY``-th test runs, unless the file already has its outcome.  With
``JAX_TESTS_TRANSFORMS`` the tests differentiate and batch by :mod:`jax_tests_transforms`, which
adds its counts to the outcomes.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from jax_tests_report import outcomes

_CHECKOUT = Path(os.environ["JAX_TESTS_CHECKOUT"])
_RECORD = Path(os.environ["JAX_TESTS_RECORD"])
_EVERY = int(os.environ["JAX_TESTS_EVERY"])
_TRANSFORMS = "JAX_TESTS_TRANSFORMS" in os.environ
_REPORTS = pytest.StashKey[list[Any]]()


class _TestUtilities(importlib.abc.MetaPathFinder):
    """Finds modules of JAX in the checkout, if the installed package does not have them."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        file = _CHECKOUT / f"{fullname.replace('.', '/')}.py"
        if not fullname.startswith("jax.") or not file.exists():
            return None
        return importlib.util.spec_from_file_location(fullname, file)


sys.meta_path.append(_TestUtilities())


if _TRANSFORMS:
    import jax_tests_transforms

    jax_tests_transforms.install()


def _write(**fields: Any) -> None:
    with _RECORD.open("a") as file:
        file.write(json.dumps(fields) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    if session.testsfailed:
        return
    if _TRANSFORMS:
        jax_tests_transforms.install_in(item.module for item in items)
    settled = outcomes(_RECORD)
    sample = items[::_EVERY]
    _write(collected=len(sample), of=len(items))
    left = [item for item in sample if item.nodeid not in settled]
    if len(left) < len(items):
        config.hook.pytest_deselected(items=list(set(items) - set(left)))
        items[:] = left


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _write(start=item.nodeid)
    item.stash[_REPORTS] = reports = []
    if _TRANSFORMS:
        jax_tests_transforms.take_counts()
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    bad = next((r for r in reports if r.outcome == "failed"), None)
    skipped = next((r for r in reports if r.outcome == "skipped"), None)
    outcome = "failed" if bad else "skipped" if skipped else "passed"
    why = (bad.longreprtext or str(bad.longrepr))[-4000:] if bad else ""
    counts = jax_tests_transforms.take_counts() if _TRANSFORMS else {}
    times = {"wall": round(wall, 4), "cpu": round(cpu, 4)}
    _write(id=item.nodeid, outcome=outcome, **times, **counts, why=why)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    outcome = yield
    item.stash[_REPORTS].append(outcome.get_result())
