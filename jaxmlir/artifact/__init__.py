"""Artifacts: a program in one file, to be loaded without its source and transformed further.

An artifact is data: a text of the jaxpr dialect, compressed, and the arrays that it names.  It is a
safetensors file (:mod:`jaxmlir.artifact.container`), described byte for byte in
``docs/artifact.md``.  Nothing in it is executed by loading it, and nobody has to trust it to look
at it:

* every byte is covered by a SHA-256 digest, which tells what was damaged, not who wrote it;
* so the module is text that :mod:`jaxmlir.artifact.module_text` checks before MLIR's parser sees
  it, never bytecode, whose reader ends the process on some inputs;
* pytree nodes and parameters are found by name among the classes that the process has, and
  ops that leave XLA's world are compiled if the caller of :func:`jaxmlir.load` lists them.
"""
