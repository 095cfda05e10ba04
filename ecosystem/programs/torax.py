# /// script
# requires-python = ">=3.11"
# dependencies = ["torax"]
# ///
"""TORAX: a step of a tokamak's transport equations, in the plasma current and a heat source."""

import jax.numpy as jnp
import torax
from torax.examples import basic_config
from torax.experimental import (
    TimeVaryingScalarUpdate,
    get_initial_state_and_post_processed_outputs,
    make_step_fn,
)


def make():
    config = dict(basic_config.CONFIG, numerics={"t_final": 1.0, "fixed_dt": 0.5})
    config["numerics"] |= {"evolve_ion_heat": True, "evolve_electron_heat": True}
    config["time_step_calculator"] = {"calculator_type": "fixed"}
    step = make_step_fn(torax.ToraxConfig.from_dict(config))
    state, outputs = get_initial_state_and_post_processed_outputs(step)

    def loss(params):
        overrides = step.runtime_params_provider.update_provider_from_mapping(
            {
                "sources.generic_heat.P_total": TimeVaryingScalarUpdate(
                    value=params["power"][None]
                ),
                "sources.generic_heat.gaussian_width": TimeVaryingScalarUpdate(
                    value=params["width"][None]
                ),
            }
        )
        following, _ = step(state, outputs, runtime_params_overrides=overrides)
        profiles = following.core_profiles
        return jnp.mean(profiles.T_e.value**2) + jnp.mean(profiles.T_i.value)

    return loss, ({"power": jnp.asarray(120e6), "width": jnp.asarray(0.07)},)
