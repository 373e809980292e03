"""How much memory may each worker take? What the machine has, less a reserve, in equal shares.

So the workers together take no more than there is, unless it is so little that their shares would
be of no use, and the system need not choose one of them to end: which one that is, and when, would
follow from rows.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from privod.control_groups import group_limits

RESERVE_BYTES = 2**30  # the server itself, the process that draws pictures, and the system
LEAST_BYTES = 2**30  # for a small table; where there is less, give one worker all there is
FIRST_VERSION = Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of control groups


def share_of_memory(workers: int = 2) -> int:
    """How much one of so many workers may take; one more share is for an owner's report."""
    return max(LEAST_BYTES, (machine_bytes() - RESERVE_BYTES) // (workers + 1))


def machine_bytes() -> int:
    """The memory of this machine, or less where a container or a service may take less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *_allowed()])


def _allowed() -> list[int]:
    """What control groups let this process take."""
    limits = group_limits("memory.max")
    with suppress(OSError):
        limits.append(FIRST_VERSION.read_text())
    return [int(limit) for limit in limits if limit.strip().isdecimal()]  # or "max"
