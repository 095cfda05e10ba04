"""Two real JAX programs go through the jaxpr dialect and come out as plain, transformable data.

    sh tools/demo.sh            from a fresh clone
    python examples/demo.py     where jaxmlir is installed; --full prints whole modules

1. **A pendulum fit.**  Gradient descent fits gravity and damping to measured angles.  The loss goes
   through ``jax.experimental.ode.odeint``, a ``custom_vjp`` function: its backward pass solves
   another differential equation.
2. **A transformer block** with attention, a layer norm (``custom_vjp``), soft-capped scores
   (``custom_jvp``) and ReLU (``custom_jvp`` in ``jax.nn``).

Each loss is staged out, verified, printed, parsed back, lowered, compiled and run; then the program
*parsed from text* is differentiated and trained.  Every number is compared with plain JAX's bit for
bit; the exit status is 1 if a number differs.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.ode import odeint

import jaxmlir

# --- 1. a pendulum, fitted to measured angles -------------------------------------------------


def swing(params, times):
    """Angles of a damped pendulum that is let go at one radian."""

    def velocity(state, _, params):
        angle, speed = state
        return jnp.array([speed, -params["g"] * jnp.sin(angle) - params["damping"] * speed])

    return odeint(velocity, jnp.array([1.0, 0.0]), times, params)[:, 0]


def pendulum_loss(params, times, angles):
    return jnp.mean((swing(params, times) - angles) ** 2)


def pendulum():
    times = jnp.linspace(0.0, 3.0, 25)
    truth = {"g": jnp.float32(9.81), "damping": jnp.float32(0.3)}
    noise = 0.01 * jax.random.normal(jax.random.key(0), times.shape)
    guess = {"g": jnp.float32(9.0), "damping": jnp.float32(0.1)}
    return pendulum_loss, guess, (times, swing(truth, times) + noise), 0.4


# --- 2. a transformer block -------------------------------------------------------------------


@jax.custom_vjp
def layer_norm(x):
    """Mean 0 and variance 1 along the last axis, with the backward pass written by hand."""
    return layer_norm_fwd(x)[0]


def layer_norm_fwd(x):
    centered = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.mean(centered**2, -1, keepdims=True) + 1e-6)
    y = centered * scale
    return y, (y, scale)


def layer_norm_bwd(residuals, g):
    y, scale = residuals
    return ((g - g.mean(-1, keepdims=True) - y * jnp.mean(g * y, -1, keepdims=True)) * scale,)


layer_norm.defvjp(layer_norm_fwd, layer_norm_bwd)


@jax.custom_jvp
def soft_cap(x):
    """Keeps attention scores within (-5, 5)."""
    return 5.0 * jnp.tanh(x / 5.0)


@soft_cap.defjvp
def soft_cap_jvp(primals, tangents):
    y = soft_cap(primals[0])
    return y, tangents[0] * (1.0 - (y / 5.0) ** 2)


def transformer_loss(params, tokens):
    """Mean cross entropy of the next token."""
    x = params["embedding"][tokens[:, :-1]]
    length, width = x.shape[1:]
    q, k, v = jnp.split(layer_norm(x) @ params["qkv"], 3, axis=-1)
    scores = soft_cap(jnp.einsum("btd,bsd->bts", q, k) / width**0.5)
    causal = jnp.tril(jnp.ones((length, length), bool))
    x = x + jax.nn.softmax(jnp.where(causal, scores, -1e9)) @ v
    x = x + jax.nn.relu(layer_norm(x) @ params["up"]) @ params["down"]
    logits = layer_norm(x) @ params["embedding"].T
    chosen = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def transformer():
    vocabulary, width = 17, 32
    shapes = {"embedding": (vocabulary, width), "qkv": (width, 3 * width)}
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    keys = jax.random.split(jax.random.key(1), len(shapes))
    params = {
        name: jax.random.normal(key, shape) / shape[0] ** 0.5
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    tokens = (jnp.arange(16) * jnp.arange(1, 9)[:, None]) % vocabulary
    return transformer_loss, params, (tokens,), 0.3


# --- the way through --------------------------------------------------------------------------


def training_step(loss: Callable[..., Any], rate: float) -> Callable[..., Any]:
    """One step down the gradient of ``loss``, which may be a Python function or a program."""

    def step(params, *data):
        value, gradient = jax.value_and_grad(loss)(params, *data)
        return value, jax.tree.map(lambda p, g: p - rate * g, params, gradient)

    return step


def train(step: Callable[..., Any], params: Any, data: Any, steps: int = 8) -> tuple[list, Any]:
    losses = []
    for _ in range(steps):
        value, params = step(params, *data)
        losses.append(value)
    return losses, params


def show(
    title: str, loss: Callable[..., Any], params: Any, data: Any, rate: float, *, full: bool
) -> bool:
    """Takes one loss through all steps, and returns whether all numbers equal JAX's.

    Args:
      full: print whole modules.
    """
    started = time.perf_counter()
    checks = Checks()
    print(f"\n=== {title} ".ljust(100, "="))

    program = jaxmlir.trace(loss)(params, *data)
    program.verify()
    text = program.as_text()
    print(f"\nThe jaxpr dialect: {len(program.functions)} functions, {text.count(chr(10))} lines\n")
    print(text if full else excerpt(text))

    # The text is the whole program: from here on, the Python function serves only to compute plain
    # JAX's numbers.
    restored = jaxmlir.parse(text, constants=program.constants)
    checks.same("text parsed and printed again", restored.as_text(), text)

    lowered = restored.lower()
    stablehlo = lowered.as_text()
    print(f"\nStableHLO: {stablehlo.count(chr(10))} lines, custom rules dropped\n")
    print(stablehlo if full else shorten(stablehlo.splitlines()[:7]))
    print()

    compiled = lowered.compile()
    checks.same("loss", compiled(params, *data), jax.jit(loss)(params, *data))

    losses, fitted = train(jax.jit(training_step(loss, rate)), params, data)
    for what, step in {
        # The step is a Python function whose gradient JAX takes; it is compiled by the dialect.
        "8 training steps, staged out": jaxmlir.jit(training_step(loss, rate)),
        # The gradient of the program parsed from text, which still has its custom rules.
        "8 training steps, of the parsed text": jax.jit(training_step(restored, rate)),
    }.items():
        ours = train(step, params, data)
        checks.same(f"{what}: losses", ours[0], losses)
        checks.same(f"{what}: parameters", ours[1], fitted)

    print(f"\n  losses {' '.join(f'{x:.4f}' for x in losses)}")
    print(f"  {time.perf_counter() - started:.1f} s")
    return checks.passed


class Checks:
    """Compares numbers bit for bit, and prints both sides."""

    def __init__(self) -> None:
        self.passed = True

    def same(self, what: str, ours: Any, jaxs: Any) -> None:
        leaves = [(np.asarray(a), np.asarray(b)) for a, b in pairs(ours, jaxs)]
        equal = all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in leaves)
        self.passed &= equal
        verdict = "identical" if equal else "DIFFERENT"
        numbers = ""
        if not isinstance(ours, str):
            last = leaves[-1]
            numbers = f"jaxmlir {last[0].flat[0]:.9g}  jax {last[1].flat[0]:.9g}"
        print(f"  {verdict}  {what:<52} {numbers}".rstrip())


def pairs(ours: Any, jaxs: Any) -> list[tuple[Any, Any]]:
    return list(zip(jax.tree.leaves(ours), jax.tree.leaves(jaxs), strict=True))


CUSTOM_CALL = re.compile(r'"jaxpr\.(custom_[jv]\w+)".*\bcall_jaxpr = @(\w+)')
RULE = re.compile(r"(?:jvp_jaxpr|fwd_jaxpr|bwd_jaxpr) = @\w+")


def excerpt(text: str) -> str:
    """The first call of a function with a custom rule, all such functions, and one rule."""
    lines = text.splitlines()
    calls = {}
    for line in lines:
        if (match := CUSTOM_CALL.search(line)) and (rules := RULE.findall(line)):
            calls.setdefault(rules[0], f"    {match[1]} @{match[2]}: {', '.join(sorted(rules))}")
    first = next(i for i, line in enumerate(lines) if CUSTOM_CALL.search(line))
    caller = max(i for i, line in enumerate(lines[:first]) if "func.func" in line)
    rule = function_of(lines, next(iter(calls)).rpartition("@")[2])
    if len(rule) > 9:
        rule = [*rule[:6], f"    ... {len(rule) - 8} more lines", *rule[-2:]]
    return shorten(
        [lines[caller], "    ...", *lines[first - 2 : first + 2], "    ...", ""]
        + ["Functions with a custom derivative rule:", *list(calls.values())[:6], ""]
        + ["A rule:", *rule]
    )


def function_of(lines: list[str], symbol: str) -> list[str]:
    start = next(i for i, line in enumerate(lines) if f"func.func private @{symbol}(" in line)
    return lines[start : lines.index("  }", start) + 1]


def shorten(lines: list[str]) -> str:
    return "\n".join(line if len(line) <= 110 else f"{line[:107]}..." for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="print whole modules")
    full = parser.parse_args().full
    passed = show("Pendulum: a fit through odeint", *pendulum(), full=full)
    passed &= show("Transformer: a training step", *transformer(), full=full)
    print("\nEvery number is JAX's." if passed else "\nSome numbers are not JAX's.")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
