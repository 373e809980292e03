"""How much memory may each worker take? What the machine has, less a reserve, in equal shares.

So the workers together never take more than there is, and the system never has to choose one of
them to end: which one that is, and when, would follow from rows.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["machine_bytes", "share_of_memory"]

RESERVE_BYTES = 2**30  # the server itself, the process that draws pictures, and the system
LEAST_BYTES = 2**30  # for a small table; where there is less, give one worker all there is
GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")


def share_of_memory(workers: int = 2) -> int:
    """How much one of so many workers may take; one more share is for an owner's report."""
    return max(LEAST_BYTES, (machine_bytes() - RESERVE_BYTES) // (workers + 1))


def machine_bytes() -> int:
    """The memory of this machine, or less where a container or a service may take less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *_allowed()])


def _allowed() -> list[int]:
    """What the control groups that this process is in may take: its own and those above."""
    try:
        lines = OWN_GROUP.read_text().splitlines()
    except OSError:
        return []
    files = [GROUPS / "memory" / "memory.limit_in_bytes"]  # of the first version, in a container
    for line in lines:
        group = GROUPS / line.rpartition(":")[2].lstrip("/")
        while group.is_relative_to(GROUPS):
            files.append(group / "memory.max")
            group = group.parent
    found = []
    for file in files:
        try:
            found.append(int(file.read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return found
