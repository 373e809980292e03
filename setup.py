"""Where the project lives, for `project.urls`: the address of the repository that this is built in.

Nobody types it: a clone knows where it came from, and a source distribution what it was built with.
Where that is no public address (a path, a private host by its file system), there are no urls, and
`make dist ARGS=--release` refuses to publish. Everything else stands in pyproject.toml.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from setuptools import setup

__all__ = ["project_urls"]

HERE = Path(__file__).parent
REMOTE = re.compile(  # https://host/owner/name.git, ssh://git@host/owner/name, git@host:owner/name
    r"(?:(?:https|ssh)://(?:[^@/]+@)?(?P<host>[\w.-]+)(?::\d+)?/|[\w.-]+@(?P<short>[\w.-]+):)"
    r"(?P<path>[\w.~/-]+?)(?:\.git)?/?"
)
PLACES = {
    "Source": "",
    "Documentation": "/tree/HEAD/docs",
    "Issues": "/issues",
    "Changes": "/blob/HEAD/CHANGELOG.md",
}


def project_urls(folder: Path = HERE) -> dict[str, str]:
    """The urls of the distribution in a folder; none where no public address is known."""
    made_of = folder / "PKG-INFO"
    if made_of.is_file():
        lines = re.findall(r"^Project-URL: (.+?), (.+)$", made_of.read_text(), re.MULTILINE)
        return dict(lines)
    command = ["git", "-C", str(folder), "config", "--get", "remote.origin.url"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:  # no git
        return {}
    found = REMOTE.fullmatch(told.stdout.strip())
    if found is None:
        return {}
    address = f"https://{found['host'] or found['short']}/{found['path']}"
    return {name: address + place for name, place in PLACES.items()}


if __name__ == "__main__":
    setup(project_urls=project_urls())
