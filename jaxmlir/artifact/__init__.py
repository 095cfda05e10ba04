"""Artifacts: a program in one file, to be loaded without its source and transformed further.

An artifact is data: the compressed text of a module of the jaxpr dialect, and the arrays that the
text names. It is a safetensors file (:mod:`jaxmlir.artifact.container`), described byte for byte in
``docs/artifact.md``. Loading an artifact executes nothing in it, and looking at it needs no trust:

* every byte is covered by a SHA-256 digest, which shows damage, not who wrote it;
* so the module is text that :mod:`jaxmlir.artifact.module_text` checks before MLIR's parser sees
  it, never bytecode, whose reader ends the process on some inputs;
* pytree nodes and parameters are found by name among the classes of the process, and ops that
  leave XLA's world are compiled only if the caller of :func:`jaxmlir.load` lists them.
"""
