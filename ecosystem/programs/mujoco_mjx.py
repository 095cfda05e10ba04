# /// script
# requires-python = ">=3.11"
# dependencies = ["mujoco-mjx"]
# ///
"""MuJoCo MJX: the height that a swinging double pendulum reaches, in the torque on its joints."""

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

MODEL = """
<mujoco>
  <option timestep="0.01" integrator="Euler"/>
  <worldbody>
    <body pos="0 0 1">
      <joint type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.04" fromto="0 0 0 0 0 -0.4" mass="1"/>
      <body pos="0 0 -0.4">
        <joint type="hinge" axis="0 1 0" damping="0.1"/>
        <geom type="capsule" size="0.04" fromto="0 0 0 0 0 -0.4" mass="1"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="" gear="1"/>
  </actuator>
</mujoco>
"""


def make():
    model = MODEL.replace('<joint type="hinge"', '<joint name="shoulder" type="hinge"', 1)
    model = mujoco.MjModel.from_xml_string(model.replace('joint=""', 'joint="shoulder"'))
    device_model = mjx.put_model(model)
    data = mjx.make_data(model)

    def loss(controls, qpos):
        def step(data, control):
            data = mjx.step(device_model, data.replace(ctrl=control[None]))
            return data, data.xpos[-1, 2]

        _, heights = jax.lax.scan(step, data.replace(qpos=qpos), controls)
        return -jnp.mean(heights)

    return loss, (jnp.linspace(0.5, 1.5, 4), jnp.array([0.3, -0.2]))
