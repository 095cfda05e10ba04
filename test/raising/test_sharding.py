"""Shardy and collectives raised to the dialect: values, derivatives and placement against JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmlir
from jaxmlir.errors import ImportingError

pytestmark = pytest.mark.compat

X = np.linspace(-0.9, 0.8, 64, dtype=np.float32).reshape(8, 8)
W = np.cos(np.arange(64, dtype=np.float32)).reshape(8, 8)


@pytest.fixture(scope="module")
def mesh():
    return jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)


def raised(f, *args):
    return jaxmlir.from_stablehlo(jax.jit(f, keep_unused=True).lower(*args).compiler_ir())


def same(got, want):
    got, want = (jax.tree.leaves(tree) for tree in (got, want))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


def as_jax(program, f, *args):
    same(program(*args), jax.jit(f)(*args))
    derivative = jax.grad(lambda *xs: sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(f(*xs))))
    loss = jaxmlir.trace(lambda *xs: sum(jnp.sum(jnp.sin(y)) for y in program(*xs)))(*args)
    same(loss.grad()(*args), jax.jit(derivative)(*args))


def test_exported_functions_of_sharded_arguments(mesh):
    """A sharding constraint stays one; the caller chooses the placement of the arguments."""

    def f(x, w):
        x = lax.with_sharding_constraint(x, NamedSharding(mesh, P("a", None)))
        return jnp.sum(jnp.sin(x @ w))

    places = NamedSharding(mesh, P("a")), NamedSharding(mesh, P(None, "b"))
    exported = export.export(jax.jit(f, in_shardings=places))(X, W)
    program = jaxmlir.from_exported(exported)
    same(program(X, W), f(X, W))
    same(program.grad()(X, W), jax.grad(f)(X, W))
    assert '"jaxpr.sharding_constraint"' in str(program)
    text = jax.jit(program).lower(*map(jax.device_put, (X, W), places)).as_text()
    assert "sdy.sharding_constraint" in text and '{"a"}, {}' in text


def collectives(x, w):
    y = lax.psum(x @ w, "b")
    gathered = lax.all_gather(y, "a", axis=0, tiled=True)
    moved = lax.ppermute(gathered, "b", [(k, (k + 1) % 4) for k in range(4)])
    scattered = lax.psum_scatter(moved, "b", scatter_dimension=0, tiled=True)
    exchanged = lax.all_to_all(gathered, "b", 0, 1, tiled=True)
    return scattered * lax.axis_index("b"), exchanged, lax.pmean(y, ("a", "b"))


def over_both(x, w):
    both = lax.all_gather(x, ("b", "a"), axis=1, tiled=True)
    return lax.ppermute(both, ("a", "b"), [(k, 7 - k) for k in range(8)])


def in_a_loop(x, w):
    return lax.scan(lambda c, row: (lax.psum(jnp.sin(c + row), "b"), None), x[0], w)[0]


MAPPED = {
    "collectives": (
        collectives,
        (P("a", "b"), P("b", None)),
        (P("b", None), P(None, "b"), P()),
        {},
    ),
    "over both axes": (over_both, (P("a", "b"), P()), P("a", "b"), {}),
    "in a loop": (in_a_loop, (P("a", "b"), P("a", "b")), P("b"), {}),
    "axes that are not manual": (
        lambda x, w: lax.psum(x @ w, "a"),
        (P(None, "a"), P("a", None)),
        P(),
        {"axis_names": {"a"}},
    ),
}


@pytest.mark.parametrize("case", MAPPED)
def test_manual_computations(mesh, case):
    body, ins, outs, options = MAPPED[case]

    def f(x, w):
        mapped = jax.shard_map(
            body, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False, **options
        )
        return jax.tree.leaves(mapped(x * 2, w))

    program = raised(f, X, W)
    assert str(program).count('"jaxpr.shard_map"') == 1
    as_jax(program, f, X, W)


def test_extrema(mesh):
    f = jax.shard_map(
        lambda x: (lax.pmax(x, "a"), lax.pmin(x, "b")), mesh=mesh, in_specs=P("a", "b"),
        out_specs=(P(None, "b"), P("a")),
    )  # fmt: skip
    same(raised(f, X)(X), jax.jit(f)(X))


MODULE = """
sdy.mesh @mesh = <["a"={size}]>
func.func public @main(%x: tensor<{total}xf32>) -> tensor<{total}xf32> {{
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"a"}}]>]
      out_shardings=[<@mesh, [{{"a"}}]>] manual_axes={{"a"}} (%y: tensor<{part}xf32>) {{
    %1 = "stablehlo.all_reduce"(%y) <{{replica_groups = dense<{groups}> : tensor<{type}xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = stablehlo.{how} %a, %b : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }}) : (tensor<{part}xf32>) -> tensor<{part}xf32>
    sdy.return %1 : tensor<{part}xf32>
  }} : (tensor<{total}xf32>) -> tensor<{total}xf32>
  return %0 : tensor<{total}xf32>
}}
"""
FITTING = {"size": 4, "part": 2, "groups": [[0, 1, 2, 3]], "type": "1x4", "how": "add", "total": 8}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"groups": [[0, 1], [2, 3]], "type": "2x2"}, "not along axes of the mesh {'a': 4}"),
        ({"how": "multiply"}, "expected a reduction over devices out of"),
        ({"size": 16, "part": 1, "total": 16}, "more devices than the 8 that JAX has here"),
    ],
)
def test_what_has_no_counterpart_is_said(changed, message):
    x = np.arange(8, dtype=np.float32)
    program = jaxmlir.from_stablehlo(MODULE.format(**FITTING))
    same(program(x), np.tile(x.reshape(4, 2).sum(0), 4))
    with pytest.raises(ImportingError) as error:
        jaxmlir.from_stablehlo(MODULE.format(**{**FITTING, **changed}))
    assert message in str(error.value)


def test_collectives_of_shardy_only_move_values():
    """A partitioner writes them where it changes how a value is split over the devices."""
    rows, whole = '<@mesh, [{"x"}, {}]>', "<@mesh, [{}, {}]>"
    text = f"""
module {{
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding{rows}}}) -> tensor<8x8xf32> {{
    %w = sdy.constant dense<0.5> : tensor<8x8xf32>
    %0 = sdy.all_gather [{{"x"}}, {{}}] %a out_sharding={whole} : tensor<8x8xf32>
    %1 = stablehlo.multiply %0, %w {{sdy.sharding = #sdy.sharding_per_value<[{whole}]>}}
      : tensor<8x8xf32>
    %2 = sdy.all_reduce {{"y"}} %1 out_sharding={whole} : tensor<8x8xf32>
    %3 = sdy.named_computation<"sine">(%2) in_shardings=[{whole}] out_shardings=[{whole}]
        (%b: tensor<8x8xf32>) {{
      %4 = stablehlo.sine %b : tensor<8x8xf32>
      sdy.return %4 : tensor<8x8xf32>
    }} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %5 = sdy.all_slice [{{"x"}}, {{}}] %3 out_sharding={rows} : tensor<8x8xf32>
    return %5 : tensor<8x8xf32>
  }}
}}"""
    program = jaxmlir.from_stablehlo(text)
    result = program(X)
    same(result, np.sin(0.5 * X))
    assert result.sharding.spec == P("x")


def test_a_collective_without_a_mesh_is_refused_unless_each_device_is_alone():
    text = """func.func public @main(%x: tensor<2xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups =
        dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    with pytest.raises(ImportingError, match="expected it in a sdy.manual_computation"):
        jaxmlir.from_stablehlo(text)
    f = jax.shard_map(
        lambda x: lax.psum(jnp.sin(x), "a") * lax.all_gather(x, "a", tiled=True),
        mesh=Mesh(jax.devices()[:1], "a"),
        in_specs=P("a"),
        out_specs=P("a"),
    )
    as_jax(raised(f, X), f, X)
