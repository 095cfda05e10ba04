"""Derivatives of loops with checkpoints, and of the sweeps over them.

Write a loop as ``x' = f(c, x)``, and a sweep over it as ``(a, y) = g(c, x, y')``, where ``y'`` is
the ``y`` of the state after ``x``, and g is linear in ``y'``.

**Loop.**  Its tangents are those of ``dx' = Df(c, x) (dc, dx)``: a loop over pairs ``(x, dx)``,
which is the linear map's forward direction.  Its transpose is the sweep with the pullback of f as
g.

**Sweep.**  Its tangents are those of the sweep with the derivative of g as g, over the loop of
pairs.  Their transpose goes the other way.  The cotangents m of the tangents of y belong to the
same states, and follow the loop ::

    m' = (transpose of g(c, x, .)) (ā, m)

while the cotangents ``n`` of the tangents of x are handed back by both f and g ::

    n = (transpose of Df in dx) n' + (transpose of the derivative of g(c, ., y') in x) (ā, m)

So it is a sweep again: the loop takes ``(x, m)`` along, and the sweep over it carries ``(n, y)``.
This does not require g to be the derivative of f, so it holds for custom rules of any kind.

**Transpose of a sweep** in ``y``, in which it is linear: the loop over ``(x, m)`` alone.

Every loop and every sweep that is made here has derivatives by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxmlir._compat import ad, ad_util
from jaxmlir.support.masks import chosen, filled, fixpoint, split
from jaxmlir.transforms.checkpointing import loop, sweep
from jaxmlir.transforms.checkpointing.linear_map import (
    call,
    has_tangent,
    jvp_jaxpr,
    linear_map_p,
    name_of,
    spread,
    traced,
    zeros,
)
from jaxmlir.transforms.checkpointing.loop import checkpointed_while_p
from jaxmlir.transforms.checkpointing.sweep import reverse_sweep_p


def _linear_map(
    forth: Any, back: Any, residuals: Sequence[Any], xs: Sequence[Any], ys: Sequence[Any], name: str
) -> list[Any]:
    """Binds the linear map that two functions of flat arguments compute; ``ys`` are its types."""
    res_avals = [jax.typeof(r) for r in residuals]
    xs_avals = [jax.typeof(x) for x in xs]
    return linear_map_p.bind(
        *residuals,
        *xs,
        call_jaxpr=traced(forth, [*res_avals, *xs_avals], f"{name}.lin"),
        transpose_jaxpr=traced(back, [*res_avals, *ys], f"{name}.bwd"),
        num_res=len(residuals),
    )


# --- the loop's functions -----------------------------------------------------------------------


def _ignoring_rest(cond: Any, extra: Sequence[Any]) -> Any:
    """A condition on a longer carry that reads only the first values."""
    n = len(cond.in_avals)
    return traced(lambda *args: call(cond, *args[:n]), [*cond.in_avals, *extra], name_of(cond))


def _tangent_avals(avals: Sequence[Any], active: Sequence[bool]) -> list[Any]:
    return [a.to_tangent_aval() for a in chosen(avals, active)]


def _active_carry(f: Any, consts: Sequence[bool], carry: Sequence[bool]) -> list[bool]:
    """Which values of the carry have tangents at some step."""
    return fixpoint(carry, lambda x: jvp_jaxpr(f, [*consts, *x], x)[1])


def _tangent_step(f: Any, consts: Sequence[bool], carry: Sequence[bool]) -> Any:
    """``(*c, *dc, *x, *dx) -> (*x', *dx')``."""
    derivative, _ = jvp_jaxpr(f, [*consts, *carry], carry)
    nc, nx, dc = len(consts), len(carry), sum(consts)

    def step(*args: Any) -> list[Any]:
        c, dcs, x, dx = split(args, nc, dc, nx)
        return call(derivative, *c, *x, *dcs, *dx)

    c, x, dcs, dx = split(derivative.in_avals, nc, nx, dc)
    return traced(step, [*c, *dcs, *x, *dx], f"{name_of(f)}.jvp")


def _forward(f: Any, active: Sequence[bool], active_out: Sequence[bool]) -> Any:
    """A function with the results as its derivative computes them: by custom rules, if any."""

    def forward(*args: Any) -> list[Any]:
        outs, _ = _vjp(f, args, active, active_out)
        return outs

    return traced(forward, f.in_avals, f"{name_of(f)}.fwd")


def _pullback(f: Any, consts: Sequence[bool], carry: Sequence[bool]) -> Any:
    """``(*c, *x, *y') -> (*cotangents of c, *y)``, for active values only."""

    def pullback(*args: Any) -> list[Any]:
        values, y = split(args, len(f.in_avals))
        return _vjp(f, values, [*consts, *carry], carry)[1](y)

    cotangents = [a.to_ct_aval() for a in chosen(f.out_avals, carry)]
    return traced(pullback, [*f.in_avals, *cotangents], f"{name_of(f)}.bwd")


def _vjp(
    f: Any, values: Sequence[Any], active: Sequence[bool], active_out: Sequence[bool]
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    """A function's results, and its pullback from active results to active arguments."""

    def of_active(*xs: Any) -> Any:
        outs = call(f, *filled(xs, active, values))
        return chosen(outs, active_out), outs

    _, pullback, outs = jax.vjp(of_active, *chosen(values, active), has_aux=True)
    return outs, lambda cotangents: list(pullback(list(cotangents)))


# --- the loop -----------------------------------------------------------------------------------


def _loop_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    cond_consts, consts, first = loop.operands(primals, params)
    dcond_consts, dconsts, dfirst = loop.operands(tangents, params)
    cond_jaxpr, body_jaxpr, checkpoints = (
        params[name] for name in ("cond_jaxpr", "body_jaxpr", "checkpoints")
    )
    if cond_jaxpr.out_avals[0].shape:
        dconsts = [*dcond_consts, *dconsts]
    cond_jaxpr, body_jaxpr, consts = loop.with_one_condition(
        cond_jaxpr, body_jaxpr, cond_consts, consts
    )
    in_consts, in_first = list(map(has_tangent, dconsts)), list(map(has_tangent, dfirst))
    active = _active_carry(body_jaxpr, in_consts, in_first)
    forward = body_jaxpr
    if any(active):
        forward = _forward(body_jaxpr, [*in_consts, *active], active)
    final, recorded = loop.run(cond_jaxpr, forward, cond_consts, consts, first, checkpoints)
    dout = []
    if any(active):
        nc, nb, nx, dc = len(cond_consts), len(consts), len(first), sum(in_consts)

        def forth(*args: Any) -> list[Any]:
            c0, c, x, _, dcs, dx = split(args, nc, nb, nx, nx + 3, dc)
            initial = [zeros(a) for a in body_jaxpr.out_avals]
            dx = chosen(filled(dx, in_first, initial), active)
            extra = _tangent_avals(body_jaxpr.out_avals, active)
            cond = _ignoring_rest(cond_jaxpr, extra)
            pairs = _tangent_step(body_jaxpr, in_consts, active)
            final, _ = loop.run(cond, pairs, c0, [*c, *dcs], [*x, *dx], checkpoints, record=False)
            return final[nx:]

        def back(*args: Any) -> list[Any]:
            c0, c, x, recorded, y = split(args, nc, nb, nx, nx + 3)
            pullback = _pullback(body_jaxpr, in_consts, active)
            sums, y = sweep.run(cond_jaxpr, forward, pullback, c0, c, x, recorded, y)
            cotangents = filled(y, active, [None] * nx)
            return [*sums, *chosen(cotangents, in_first)]

        dout = _linear_map(
            forth,
            back,
            [*cond_consts, *consts, *first, *recorded],
            [*chosen(dconsts, in_consts), *chosen(dfirst, in_first)],
            [a.to_ct_aval() for a in chosen(body_jaxpr.out_avals, active)],
            "while",
        )
    outs = [*final, *recorded] if params["record"] else final
    return outs, spread(outs, [*active, *[False] * (len(outs) - len(final))], dout)


ad.primitive_jvps[checkpointed_while_p] = _loop_jvp


# --- the sweep ----------------------------------------------------------------------------------


def _sweep_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    cond_consts, consts, first, record, last = sweep.operands(primals, params)
    _, dconsts, dfirst, _, dlast = sweep.operands(tangents, params)
    in_consts, in_first, in_last = (list(map(has_tangent, ts)) for ts in (dconsts, dfirst, dlast))
    if not any(in_consts + in_first):
        outs = reverse_sweep_p.bind(*primals, **params)
        dlast = list(map(ad.instantiate_zeros, dlast))
        fixed = [*cond_consts, *consts, *first, *record]
        return outs, reverse_sweep_p.bind(*fixed, *dlast, **params)
    map_ = _SweepTangents(params, in_consts, in_first, in_last, record)
    outs = reverse_sweep_p.bind(*primals, **map_.primal_params)
    dout = _linear_map(
        map_.forth,
        map_.back,
        primals,
        [*chosen(dconsts, in_consts), *chosen(dfirst, in_first), *chosen(dlast, in_last)],
        [a.to_ct_aval() for a in chosen(map_.g.out_avals, map_.sums + map_.y)],
        "sweep",
    )
    return outs, spread(outs, map_.sums + map_.y, dout)


ad.primitive_jvps[reverse_sweep_p] = _sweep_jvp


class _SweepTangents:
    """The linear map from the tangents of a sweep's operands to those of its results."""

    def __init__(
        self,
        params: dict[str, Any],
        consts: list[bool],
        first: list[bool],
        last: list[bool],
        record: Sequence[Any],
    ):
        self.params = params
        self.cond, self.f, self.g = (
            params[k] for k in ("cond_jaxpr", "advance_jaxpr", "step_jaxpr")
        )
        self.checkpoints = record[-3].shape[0] - 1
        self.consts, self.first, self.last = consts, first, last
        self.num_sums = sweep.num_sums(params)
        self.x = _active_carry(self.f, consts, first)
        keep = [False] * self.num_sums

        def grow(y: list[bool]) -> list[bool]:
            return jvp_jaxpr(self.g, [*consts, *self.x, *y], [*keep, *y])[1][self.num_sums :]

        # Which of y and of the sums have tangents.
        self.y = fixpoint(last, grow)
        self.dg, out = jvp_jaxpr(self.g, [*consts, *self.x, *self.y], [*keep, *self.y])
        self.sums = out[: self.num_sums]
        # The functions with the results that derivatives compute.
        self.f_values = _forward(self.f, [*consts, *self.x], self.x)
        self.g_values = _forward(self.g, [*consts, *self.x, *self.y], [*self.sums, *self.y])
        self.primal_params = params | {"advance_jaxpr": self.f_values, "step_jaxpr": self.g_values}

    def forth(self, *args: Any) -> list[Any]:
        fixed = len(args) - sum(self.consts + self.first + self.last)
        counts = fixed, sum(self.consts), sum(self.first)
        primals, dconsts, dfirst, dlast = split(args, *counts)
        cond_consts, consts, first, _, last = sweep.operands(primals, self.params)
        dx = chosen(filled(dfirst, self.first, [zeros(a) for a in self.f.out_avals]), self.x)
        y_avals = self.g.out_avals[self.num_sums :]
        dy = chosen(filled(dlast, self.last, [zeros(a) for a in y_avals]), self.y)
        cond = _ignoring_rest(self.cond, _tangent_avals(self.f.out_avals, self.x))
        pairs = _tangent_step(self.f, self.consts, self.x)
        c, x = [*consts, *dconsts], [*first, *dx]
        _, record = loop.run(cond, pairs, cond_consts, c, x, self.checkpoints)
        sums, y = sweep.run(
            cond, pairs, self._tangents_of_step(), cond_consts, c, x, record, [*last, *dy]
        )
        return [*sums[self.num_sums :], *y[len(last) :]]

    def _tangents_of_step(self) -> Any:
        """``(*c, *dc, *x, *dx, *y', *dy') -> (*a, *da, *y, *dy)``."""
        nc, nx, ny = len(self.consts), len(self.x), len(self.y)
        dc, dx, da = sum(self.consts), sum(self.x), sum(self.sums)

        def step(*args: Any) -> list[Any]:
            c, dcs, x, dxs, y, dys = split(args, nc, dc, nx, dx, ny)
            outs = call(self.dg, *c, *x, *y, *dcs, *dxs, *dys)
            a, y, das, dys = split(outs, self.num_sums, ny, da)
            return [*a, *das, *y, *dys]

        c, x, y, dcs, dxs, dys = split(self.dg.in_avals, nc, nx, ny, dc, dx)
        avals = [*c, *dcs, *x, *dxs, *y, *dys]
        return traced(step, avals, f"{name_of(self.g)}.jvp")

    def back(self, *args: Any) -> list[Any]:
        num = sum(self.sums) + sum(self.y)
        primals, abar, m = split(args, len(args) - num, sum(self.sums))
        cond_consts, consts, first, _, last = sweep.operands(primals, self.params)
        cond = _ignoring_rest(self.cond, [jax.typeof(v) for v in m])
        follow = _following(self.f_values, self.g_values, len(consts), self.sums, self.y)
        c, x = [*consts, *abar], [*first, *m]
        final, record = loop.run(cond, follow, cond_consts, c, x, self.checkpoints)
        m = final[len(first) :]
        n = [zeros(a) for a in chosen(self.f.out_avals, self.x)]
        sums, n = sweep.run(cond, follow, self._pull_both(), cond_consts, c, x, record, [*n, *last])
        n = filled(n[: sum(self.x)], self.x, [None] * len(self.x))
        m = filled(m, self.y, [None] * len(self.y))
        return [*sums, *chosen(n, self.first), *chosen(m, self.last)]

    def _pull_both(self) -> Any:
        """``(*c, *ā, *x, *m, *n', *y') -> (*cotangents of c, *n, *y)``."""
        nc, nx, ny = len(self.consts), len(self.x), len(self.y)
        na, nm, nn, ncs = sum(self.sums), sum(self.y), sum(self.x), sum(self.consts)
        of_f, of_g = [*self.consts, *self.x], [*self.consts, *self.x, *[False] * ny]

        def step(*args: Any) -> list[Any]:
            c, abar, x, m, n, y = split(args, nc, na, nx, nm, nn)
            _, by_f = _vjp(self.f, [*c, *x], of_f, self.x)
            outs, by_g = _vjp(self.g, [*c, *x, *y], of_g, self.sums + self.y)
            both = [ad.add_jaxvals(p, q) for p, q in zip(by_f(n), by_g([*abar, *m]), strict=True)]
            return [*both[:ncs], *both[ncs:], *outs[self.num_sums :]]

        c, x, y = split(self.g.in_avals, nc, nx)
        abar, m = _cotangents_of_results(self.g, self.sums, self.y)
        n = [a.to_ct_aval() for a in chosen(self.f.out_avals, self.x)]
        return traced(step, [*c, *abar, *x, *m, *n, *y], f"{name_of(self.g)}.bwd")


def _cotangents_of_results(g: Any, sums: Sequence[bool], y: Sequence[bool]) -> list[list[Any]]:
    """The types of the cotangents of the active sums, and of the active y."""
    a_avals, y_avals = split(g.out_avals, len(sums))
    return [
        [a.to_ct_aval() for a in chosen(avals, which)]
        for avals, which in ((a_avals, sums), (y_avals, y))
    ]


def _following(f: Any, g: Any, nc: int, sums: Sequence[bool], y: Sequence[bool]) -> Any:
    """``(*c, *ā, *x, *m) -> (*x', *m')``: cotangents of a sweep, for the given sums and y, follow
    the loop."""
    nx, na = len(f.out_avals), sum(sums)

    def step(*args: Any) -> list[Any]:
        c, abar, x, m = split(args, nc, na, nx)
        # g is linear in y: its transpose is the same everywhere.
        at = [ad_util.zeros_like_aval(a) for a in g.out_avals[len(sums) :]]
        active = [*[False] * (nc + nx), *y]
        _, pullback = _vjp(g, [*c, *x, *at], active, [*sums, *y])
        return [*call(f, *c, *x), *pullback([*abar, *m])]

    c, x = split(f.in_avals, nc)
    abar, m = _cotangents_of_results(g, sums, y)
    return traced(step, [*c, *abar, *x, *m], f"{name_of(f)}.transpose")


def _sweep_transpose(cotangents: Any, *args: Any, **params: Any) -> list[Any]:
    cond_consts, consts, first, record, last = sweep.operands(args, params)
    cond, f, g = (params[k] for k in ("cond_jaxpr", "advance_jaxpr", "step_jaxpr"))
    checkpoints = record[-3].shape[0] - 1
    sums, ny = sweep.num_sums(params), len(last)
    linear = list(map(ad.is_undefined_primal, last))
    residuals = [*cond_consts, *consts, *first, *record]

    def forth(*args: Any) -> list[Any]:
        values, abar, m = split(args, len(residuals), sums)
        c0, c, x, *_ = sweep.operands(values, params)
        follow = _following(f, g, len(c), [True] * sums, [True] * ny)
        pairs = _ignoring_rest(cond, [jax.typeof(v) for v in m])
        final, _ = loop.run(pairs, follow, c0, [*c, *abar], [*x, *m], checkpoints, record=False)
        return chosen(final[len(x) :], linear)

    def back(*args: Any) -> list[Any]:
        values, y = split(args, len(residuals))
        y = filled(y, linear, [zeros(a) for a in g.out_avals[sums:]])
        return reverse_sweep_p.bind(*values, *y, **params)

    outs = _linear_map(
        forth,
        back,
        residuals,
        list(map(ad.instantiate_zeros, cotangents)),
        [v.aval for v in chosen(last, linear)],
        "sweep.transpose",
    )
    return [*[None] * len(residuals), *filled(outs, linear, [None] * ny)]


ad.primitive_transposes[reverse_sweep_p] = _sweep_transpose
