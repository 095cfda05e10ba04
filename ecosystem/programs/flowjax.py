# /// script
# requires-python = ">=3.11"
# dependencies = ["flowjax"]
# ///
"""flowjax: the likelihood of a masked autoregressive flow with rational quadratic splines."""

import equinox as eqx
import jax
import paramax
from flowjax.bijections import RationalQuadraticSpline
from flowjax.distributions import Normal
from flowjax.flows import masked_autoregressive_flow


def make():
    x = jax.random.normal(jax.random.key(0), (32, 3))
    flow = masked_autoregressive_flow(
        jax.random.key(1),
        base_dist=Normal(jax.numpy.zeros(3)),
        transformer=RationalQuadraticSpline(knots=5, interval=4),
        flow_layers=2,
        nn_width=10,
    )
    params, static = eqx.partition(
        flow, eqx.is_inexact_array, is_leaf=lambda leaf: isinstance(leaf, paramax.NonTrainable)
    )

    def loss(params, x):
        flow = paramax.unwrap(eqx.combine(params, static))
        return -flow.log_prob(x).mean()

    return loss, (params, x)
