# /// script
# requires-python = ">=3.11"
# dependencies = ["ott-jax"]
# ///
"""OTT: the Sinkhorn divergence between two clouds of points."""

import jax
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn


def make():
    x = jax.random.normal(jax.random.key(0), (12, 2))
    y = jax.random.normal(jax.random.key(1), (10, 2)) + 1.0
    solver = sinkhorn.Sinkhorn(threshold=1e-3)

    def loss(x, y):
        def cost(x, y):
            geometry = pointcloud.PointCloud(x, y, epsilon=0.5)
            return solver(linear_problem.LinearProblem(geometry)).reg_ot_cost

        return cost(x, y) - 0.5 * (cost(x, x) + cost(y, y))

    return loss, (x, y)
