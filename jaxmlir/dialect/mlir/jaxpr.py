"""The module MLIR's bindings load when they first meet an op of the ``jaxpr`` dialect.

It registers the dialect and deliberately no per-op classes.  Without a dialect module the bindings
try to import one for *every* op a block yields (64 us each); with one, a plain ``OpView`` costs
0.4 us, and a Python class per op would cost 1.9 us.
"""

from jaxlib.mlir import ir
from jaxlib.mlir.dialects._ods_common import _cext


@_cext.register_dialect
class JaxprDialect(ir.Dialect):
    """Jaxprs as MLIR: one op ``jaxpr.<primitive>`` per equation."""

    DIALECT_NAMESPACE = "jaxpr"
