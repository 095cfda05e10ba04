"""The files of the user that jaxmlir reads: its cache directory, and lines of sources.

A program that somebody else wrote says where its ops came from, and may name any file.  Who prints
a line, or a traceback, reads the file to its end: a device or a pipe may have none.
"""

from __future__ import annotations

import functools
import linecache
import os
import stat


def directory() -> str:
    """The directory that the environment names, empty if nothing is to be kept."""
    root = os.environ.get("JAXMLIR_CACHE_DIR")
    return os.path.abspath(root) if root else ""


MAX_BYTES = 16 << 20

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of jaxmlir."""


@functools.lru_cache(1024)
def may_be_shown(file: str) -> bool:
    """Whether a file is a plain one that is soon read, or there is none."""
    try:
        status = os.stat(file)
    except OSError:
        return True
    except ValueError:  # No file is named so.
        return False
    # What the system says of itself comes in files of no size.
    return stat.S_ISREG(status.st_mode) and 0 < status.st_size <= MAX_BYTES


def source_line(file: str, line: int) -> str:
    """A line of a file, without what ends it; empty where it is not known or may not be shown."""
    return linecache.getline(file, line).rstrip("\n") if line and may_be_shown(file) else ""
