"""Write `src/privod/__init__.pyi`: where type checkers find each public name of the root."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import privod

STUB = Path(__file__).parent.parent / "src" / "privod" / "__init__.pyi"


def stub_text() -> str:
    """The stub: one import for each module that has public names of ours."""
    homes = sorted(privod.public_names().items(), key=lambda pair: (pair[1], pair[0]))
    lines = ["# Written by `make stub` from the rooms and the registry of questions.", ""]
    for module, pairs in groupby(homes, key=lambda pair: pair[1]):
        lines.append(f"from {module} import (")
        lines += [f"    {name} as {name}," for name, _ in pairs]
        lines.append(")")
    lines += ["", "__version__: str", "__all__: list[str]", "ROOMS: tuple[str, ...]", ""]
    lines += ["def public_names() -> dict[str, str]: ...", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    STUB.write_text(stub_text())
