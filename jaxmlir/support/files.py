"""The user's files that jaxmlir reads: its cache directory, and lines of source files.

The locations in a program of unknown origin may name any file.  Printing a line or a traceback
reads the file to its end, and a device or a pipe may have no end.
"""

from __future__ import annotations

import functools
import linecache
import os
import stat


def directory() -> str:
    """The cache directory that the environment names; empty if there is none."""
    root = os.environ.get("JAXMLIR_CACHE_DIR")
    return os.path.abspath(root) if root else ""


MAX_BYTES = 16 << 20

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of jaxmlir."""


@functools.lru_cache(1024)
def may_be_shown(file: str) -> bool:
    """Whether a file is regular and small enough to be read, or does not exist."""
    try:
        status = os.stat(file)
    except OSError:
        return True
    except ValueError:  # No file is named so.
        return False
    # Files in which the system describes itself have size 0.
    return stat.S_ISREG(status.st_mode) and 0 < status.st_size <= MAX_BYTES


def source_line(file: str, line: int) -> str:
    """A line of a file without the line break; empty if it is unknown or may not be shown."""
    return linecache.getline(file, line).rstrip("\n") if line and may_be_shown(file) else ""
