"""Files and directories that only their owner may read, whatever the umask."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import warnings
from contextlib import suppress
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_mutex = threading.Lock()


def private_directory(path: Path) -> None:
    """Make a directory for its owner alone; one that is there keeps its mode."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & OTHERS_WRITE:
        warnings.warn(
            f"Others may write to {str(path)!r}, and so replace what privod keeps there."
            f" Run: chmod go-w {str(path)!r}",
            stacklevel=3,
        )


def private_file(path: Path) -> None:
    """Make an empty file for its owner alone, or close one of ours that is open to others."""
    # A file that exists is not opened here: to close it again would free every lock that SQLite
    # holds on it in this process. The mutex keeps others from locking one that is being made.
    with _mutex, suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    close_to_others(path)


def close_to_others(path: Path) -> None:
    """Take from others what they may do with a file, if it is ours and there."""
    with suppress(OSError):
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)


def sync_file(path: Path) -> None:
    """Make durable what was written to a file or a directory."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if hasattr(fcntl, "F_FULLFSYNC"):  # where fsync alone means less, as on macOS
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        else:
            os.fsync(handle)
    finally:
        os.close(handle)
