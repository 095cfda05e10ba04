"""Saves programs and reads them back, in the form that the switch ``--through`` selects.

By default a program is saved and loaded as an artifact; with ``--through=text``, it is printed and
parsed, with its constants.  ``conftest`` imports this module before JAX may be imported, so nothing
here imports JAX at module level.
"""

import os
import tempfile
from pathlib import Path

VARIABLE = "JAXMLIR_TEST_THROUGH"
WAYS = ("artifact", "text")


def through_artifact(program):
    """The program after saving and loading it, in this process.

    Raises:
      ArtifactError: the program cannot be saved.
    """
    import jaxmlir

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "program.jaxmlir")
        program.save(path)
        return jaxmlir.load(path, allow_custom_calls=None)


def through_text(program):
    """The program after printing and parsing it."""
    import jaxmlir

    return jaxmlir.parse(program.as_text(), constants=program.constants)


def reread(program):
    """The program saved and read back; a program with callbacks always goes through text."""
    from jaxmlir.errors import ArtifactError

    if os.environ.get(VARIABLE, WAYS[0]) == "artifact":
        try:
            return through_artifact(program)
        except ArtifactError as e:
            if not any(m in str(e) for m in ("cannot be saved", "in this process only")):
                raise
    return through_text(program)
