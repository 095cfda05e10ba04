"""Random numbers."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Trait, binary, family, op, unary

RANDOM = family(
    "random",
    "Random numbers: typed keys, and the counter-based generators under them.",
    # Typed keys: tensors of !jaxpr.key<"fry">
    unary("random_seed", "Keys made from integer seeds.", "impl: record PRNGImpl"),
    unary(
        "random_wrap",
        "Raw key data (unsigned integers) as keys.",
        "impl: record PRNGImpl",
        inverse="random_unwrap",
    ),
    unary("random_unwrap", "The raw data of keys.", inverse="random_wrap"),
    unary(
        "random_split", "New independent keys from each key: the shape is appended.", "shape: ints"
    ),
    binary("random_fold_in", "A new key from each key and integer."),
    unary(
        "random_clone",
        "The same keys, counted as new ones by the key-reuse checker.",
        inverse="the key itself",
    ),
    unary(
        "random_bits",
        "Uniform random bits, an unsigned integer array for each key.",
        "bit_width: int, shape: ints",
    ),
    binary(
        "random_gamma",
        "Gamma samples of shape parameter a; operands (key, a); their logarithms in log space.",
        "log_space: bool = false",
        inverse="not invertible: a sample says little about its parameters",
    ),
    # Generators
    op("threefry2x32", 4, 2, "Threefry-2x32 hash; operands (key0, key1, counter0, counter1)."),
    op("threefry4x32", 8, 4, "Threefry-4x32 hash, of four key words and four counter words."),
    op("philox2x32", 3, 2, "Philox-2x32 hash, of a key word and two counter words."),
    op("philox4x32", 6, 4, "Philox-4x32 hash, of two key words and four counter words."),
    op(
        "rng_bit_generator",
        1,
        2,
        "XLA's generator: the new state and random bits.",
        "shape: ints, dtype: dtype, algorithm: enum RandomAlgorithm, out_sharding: sharding?",
    ),
    binary(
        "rng_uniform",
        "Uniform samples in [a, b) from XLA's stateful generator.",
        "shape: ints",
        distinct="the generator has a state: every op gives different numbers",
        traits=(Trait.IMPURE,),
    ),
    # The key-reuse checker
    unary(
        "consume",
        "The same keys, marked as used.",
        distinct="keys may be used once",
        inverse="no rule: a consumed key is not reused",
    ),
    unary(
        "assert_consumed_value",
        "Checks which keys are marked as used.",
        "value: any",
        inverse="no rule: a consumed key is not reused",
    ),
    inverse="not invertible: the hash is one-way",
)
