# /// script
# requires-python = ">=3.11"
# dependencies = ["nifty8", "jax"]
# ///
"""NIFTy.re: the posterior energy of a log-normal field with a correlated prior."""

import jax
import jax.numpy as jnp
import nifty8.re as jft


def make():
    field = jft.CorrelatedFieldMaker("field")
    field.set_amplitude_total_offset(offset_mean=0.5, offset_std=(0.1, 0.03))
    field.add_fluctuations(
        (16,),
        distances=1.0 / 16,
        fluctuations=(0.5, 0.2),
        loglogavgslope=(-2.0, 0.5),
        prefix="x",
        non_parametric_kind="power",
    )
    correlated = field.finalize()
    likelihood = jft.Poissonian(jnp.arange(16) % 5 + 1)

    def loss(latent):
        rate = jnp.exp(correlated(latent))
        prior = sum(jnp.vdot(v, v) for v in jax.tree.leaves(latent))
        return likelihood(rate) + 0.5 * prior

    latent = jft.random_like(jax.random.PRNGKey(1), correlated.domain)
    return loss, (jax.tree.map(lambda x: 0.3 * x, latent),)
