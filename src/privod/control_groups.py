"""What may this process take, if a container or a service gives it less than the machine has?"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")


def group_limits(name: str) -> list[str]:
    """What a file of the control groups that this process is in says: its own and those above."""
    try:
        lines = OWN_GROUP.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        group = GROUPS / line.rpartition(":")[2].lstrip("/")
        while group.is_relative_to(GROUPS):
            with suppress(OSError):  # nothing is limited there
                found.append((group / name).read_text())
            group = group.parent
    return found
