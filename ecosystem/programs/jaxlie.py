# /// script
# requires-python = ">=3.11"
# dependencies = ["jaxlie"]
# ///
"""jaxlie: the error of a chain of rigid motions, by the exponential and logarithm maps."""

import jax
import jax.numpy as jnp
import jaxlie


def make():
    twists = 0.5 * jax.random.normal(jax.random.key(0), (4, 6))
    points = jax.random.normal(jax.random.key(1), (7, 3))

    def loss(twists, points):
        def compose(pose, twist):
            pose = pose @ jaxlie.SE3.exp(twist)
            return pose, pose.translation()

        pose, path = jax.lax.scan(compose, jaxlie.SE3.identity(), twists)
        goal = jaxlie.SE3.from_rotation_and_translation(
            jaxlie.SO3.from_rpy_radians(0.1, 0.2, 0.3), jnp.array([1.0, 0.0, 0.5])
        )
        error = (goal.inverse() @ pose).log()
        moved = jax.vmap(pose.apply)(points)
        return jnp.sum(error**2) + jnp.mean(moved**2) + jnp.mean(jnp.sin(path))

    return loss, (twists, points)
