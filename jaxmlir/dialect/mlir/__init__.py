"""The package where MLIR's Python bindings look for dialect modules (see
:mod:`jaxmlir.dialect.ir`)."""
