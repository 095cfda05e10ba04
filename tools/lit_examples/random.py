"""Examples of random keys, bits and generators."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from lit_examples._example import bound, example, f32, key, u32

EXAMPLES = {
    "random_seed": example(lambda seed: jax.random.key(seed), np.int32(7)),
    "random_wrap": example(lambda data: jax.random.wrap_key_data(data), u32(1, 2)),
    "random_unwrap": example(jax.random.key_data, key(7)),
    "random_split": example(jax.random.split, key()),
    "random_fold_in": example(jax.random.fold_in, key(), np.uint32(3)),
    "random_clone": example(jax.random.clone, key(7)),
    "random_bits": bound("random_bits", key(), bit_width=32, shape=(3,)),
    "random_gamma": bound("random_gamma", key(), f32(2), log_space=False),
    "threefry2x32": bound("threefry2x32", u32(1), u32(2), u32(3), u32(4)),
    "threefry4x32": bound("threefry4x32", *(u32(n) for n in range(8))),
    "philox2x32": bound("philox2x32", *(u32(n) for n in range(3))),
    "philox4x32": bound("philox4x32", *(u32(n) for n in range(6))),
    "rng_bit_generator": example(lambda k: lax.rng_bit_generator(k, (3,)), u32(1, 2, 3, 4)),
    "rng_uniform": example(
        lambda a, b: lax.rng_uniform(a, b, (3,)),
        np.float32(0),
        np.float32(1),
        numbers="XLA's generator is stateful.",
    ),
}

CHECKER = "The key-reuse checker makes it for itself; no program has it."
WITHOUT = {"consume": CHECKER, "assert_consumed_value": CHECKER}
