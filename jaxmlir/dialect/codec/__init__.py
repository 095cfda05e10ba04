"""Codecs between parameters of equations and MLIR attributes, one per Python type.

=======================  ====================================================================
``None``                 ``none``
``True``                 ``true``
``3``                    ``3 : i64`` (beyond 64 bits: ``{int = "..."}``)
``1.0``                  ``1.000000e+00 : f64``
``1j``                   ``{complex = [0.0, 1.0]}``
``"s"``                  ``"s"``; ``b"s"`` is ``{bytes = "73"}``
``np.dtype("f4")``       ``f32`` (an element type); ``np.float32`` is ``{scalar_type = f32}``
``list``                 ``{container_type = "list"}``, the factory of a ``defaultdict``
an aval                  ``tensor<4xf32>`` (a whole type)
``(1, 2)``               ``array<i64: 1, 2>``, and so is ``range(1, 3)``; ``(True,)`` is
                         ``array<i1: true>``
other tuples             ``[...]``
``[...]``                ``{list = [...]}``; ``{dict = [[k, v], ...]}``; ``{set = [...]}``
an enum                  ``{GatherScatterMode = "CLIP"}``
a named tuple or class   ``{GatherDimensionNumbers = {offset_dims = array<i64: 1>, ...}}``
a numpy array            ``dense<...>``; a numpy scalar is ``{scalar = dense<...>}``, an array of
                         objects ``{objects = [array<i64: 2>, [...]]}``
a (closed) jaxpr         ``@f``, the symbol of a function
a primitive              ``{primitive = "ge"}``
a policy of checkpoint   ``{checkpoint_policy = ["dots_saveable"]}`` (see :mod:`.jax_objects`)
a symbolic dimension     ``{dim = "2*b"}``; with its scope's constraints ``{dim = ["b", "b>=2"]}``
a record of a kernel     ``{pallas.core.Blocked = {block_size = 8 : i64}}`` (a class of Pallas)
a sentinel of a module   ``{sentinel = "package.module:MISSING"}``
anything else            ``{handle = "h0"}`` (see :mod:`jaxmlir.dialect.handles`)
=======================  ====================================================================

A value of another class is a dictionary with one entry, its tag, so every attribute can be decoded
without knowing which parameter it is.  MLIR uniques attributes in the process-wide context, so
decoding one for the second time is a dictionary look-up.
"""

from jaxmlir.dialect.codec import jax_objects, python_values  # noqa: F401 (they register codecs)
from jaxmlir.dialect.codec.registry import (
    HANDLE,
    NO_MODULE,
    OWN_TAGS,
    SYMBOLS,
    Reader,
    Writer,
    decode,
    depends_on_module,
    encode,
    encode_handle,
    handles_in,
    record,
    register_param_type,
    tagged,
)

__all__ = [
    "HANDLE",
    "NO_MODULE",
    "OWN_TAGS",
    "Reader",
    "SYMBOLS",
    "Writer",
    "decode",
    "depends_on_module",
    "encode",
    "encode_handle",
    "handles_in",
    "record",
    "register_param_type",
    "tagged",
]
