"""The command-line tools ``jaxmlir-opt``, ``jaxmlir-translate`` and ``jaxmlir-run``."""
