"""Text and folders that an agent had its hands on: neither odd characters nor odd permissions may stop the harness."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

_UNENCODABLE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_REMOVAL_SECONDS = 300.0


def to_bytes(text: str) -> bytes:
    """``text`` as UTF-8, for every string: a surrogate that stands for a byte (U+DC80 to U+DCFF) becomes that byte, any other one U+FFFD."""
    return _UNENCODABLE.sub("\ufffd", text).encode("utf-8", errors="surrogateescape")


def remove_tree(path: Path) -> bool:
    """Remove a folder in which an agent has worked, whatever permissions and depth it left; whether nothing is there any more.

    A symlink at ``path`` is removed itself, never what it points to.
    """
    if path.is_symlink() or path.is_file():
        path.unlink()
        return True
    with contextlib.suppress(RecursionError):  # thousands of folders inside one another; rm(1) does not recurse
        shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        for command in (["chmod", "-R", "u+rwx", "--", str(path)], ["rm", "-rf", "--", str(path)]):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_REMOVAL_SECONDS, check=False)
    return not os.path.lexists(path)
