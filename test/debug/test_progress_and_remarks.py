"""Progress lines of long-running work, and remarks of passes."""

import contextlib
import importlib
import io
import time

import jax.numpy as jnp
import pytest

import jaxmlir
from jaxmlir import debug
from jaxmlir.support import progress


class Terminal(io.StringIO):
    """A stand-in for a terminal that records the output."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "DELAY", 0.01)
    # Import it first, because that takes longer than the work of these tests.
    importlib.import_module("rich.live")
    importlib.import_module("rich.spinner")
    return Terminal()


def work(terminal, until="", seconds=0.3):
    """Works for so many seconds, or until the terminal shows a text."""
    with contextlib.redirect_stderr(terminal), progress.progress("outer", 2) as outer:
        outer("first")
        with progress.progress("inner") as inner:
            inner("step")
            end = time.monotonic() + seconds
            while time.monotonic() < end and not (until and until in terminal.getvalue()):
                time.sleep(0.02)


def test_long_work_says_on_a_terminal_what_it_is_at(terminal):
    said = "outer 1/2: first; inner: step"
    work(terminal, until=said, seconds=60.0)
    assert said in terminal.getvalue()
    # The line is gone when the work is done.
    assert terminal.getvalue().endswith("\x1b[2K")


def test_short_work_says_nothing(terminal, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 60.0)
    work(terminal)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("variable", ["TERM=dumb", "JAXMLIR_PROGRESS=0", ""])
def test_nothing_is_written_elsewhere(terminal, monkeypatch, variable):
    if variable:
        monkeypatch.setenv(*variable.split("="))
    else:
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    work(terminal)
    assert terminal.getvalue() == ""


def test_passes_and_budgets_are_named(terminal, monkeypatch):
    # The terminal shows a frame every 80 ms, and a step may be shorter: this records every text.
    said = []
    monkeypatch.setattr("rich.status.Status.update", lambda self, status: said.append(status))
    wanted = ("running passes 2/2: jaxpr-remat", "@lambda.grad within a budget of 0.5: estimating")
    end = time.monotonic() + 60.0
    size, missing = 300, wanted
    # The line appears from a thread, which a busy machine may start late.  Another size is another
    # program, of which no strategy is known yet.
    while missing and time.monotonic() < end:
        size += 1
        loss = jaxmlir.trace(lambda x: jnp.sin(jnp.exp(x @ x)).sum())(jnp.ones((size, size)))
        with contextlib.redirect_stderr(terminal):
            loss.grad().remat(0.5)
        missing = [text for text in wanted if not any(text in each for each in said)]
    assert not missing


# --- remarks --------------------------------------------------------------------------------------


def many(x, w):
    """Forty cheap duplicates, and an expensive one."""
    small = sum((jnp.sin(x + i) + jnp.sin(x + i)).sum() for i in range(40))
    return small + jnp.sum(w @ w + w @ w)


def test_remarks_are_ranked_by_what_they_are_about():
    program = jaxmlir.trace(many)(jnp.ones(3), jnp.ones((200, 200)))
    each, report = [], debug.RemarkReport()
    program.run_passes("jaxpr-cse", remarks=each.append)
    program.run_passes("jaxpr-cse", remarks=report)
    assert len(report) == len(each) > 80
    first, *rest = report.ranked()
    # There is one line for all duplicates, about the costliest one.
    assert rest == []
    assert "removed 'jaxpr.dot_general': computed before" in first.message
    assert first.message.endswith(f"(and {len(each) - 1} more of this kind)")
    assert first.file == __file__


def test_a_remark_counts_as_often_as_its_op_runs():
    def f(x, y):
        from jax import lax

        def step(c, _):
            return jnp.sin(c) + jnp.sin(c), None

        return lax.scan(step, x, length=1000)[0].sum() + jnp.sum(jnp.cos(y) + jnp.cos(y))

    report = debug.RemarkReport()
    jaxmlir.trace(f)(jnp.ones(10), jnp.ones(100)).run_passes("jaxpr-cse", remarks=report)
    # Only a few remarks of each kind are listed, the costliest first.
    assert [("sin" in r.message) for r in report.ranked()] == [True, False]
    assert str(report).count("\n") == 1
