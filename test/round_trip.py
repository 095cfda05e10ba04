"""How the tests send a program out of the process and back in: the switch ``--through``.

By default as an artifact, saved and loaded; with ``--through=text``, as text with its constants.
``conftest`` imports this before JAX may be imported, and so nothing here does.
"""

import os
import tempfile
from pathlib import Path

VARIABLE = "JAXMLIR_TEST_THROUGH"
WAYS = ("artifact", "text")


def through_artifact(program):
    """The program, saved and loaded, in this process.

    Raises:
      ArtifactError: it cannot be saved.
    """
    import jaxmlir

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "program.jaxmlir")
        program.save(path)
        return jaxmlir.load(path, allow_custom_calls=None)


def through_text(program):
    """The program, printed and parsed."""
    import jaxmlir

    return jaxmlir.parse(program.as_text(), constants=program.constants)


def reread(program):
    """The program, written down and read back; one with callbacks as text, in any case."""
    from jaxmlir.errors import ArtifactError

    if os.environ.get(VARIABLE, WAYS[0]) == "artifact":
        try:
            return through_artifact(program)
        except ArtifactError as e:
            if not any(m in str(e) for m in ("cannot be saved", "in this process only")):
                raise
    return through_text(program)
