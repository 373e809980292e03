"""Outlier detection with differential privacy: questions about private data, with guarantees.

Public are the names in `__all__` of the rooms below and of every registered question. They are
loaded when first used, so that `import privod` and `privod --help` stay quick; `__init__.pyi`,
written by `make stub`, tells type checkers where each one is.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from privod.version import __version__ as __version__

ROOMS = ("errors", "privacy", "data", "query", "curator", "client")
"""The modules whose public names are public here too, the quickest to load first."""


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(public_names())
    if not name.startswith("_") and find_spec(f"{__name__}.{name}") is None:  # not a room itself
        from privod.registry import load, questions

        for described in questions().values():
            if name in described.public_names():
                return load(described.public_names()[name])
        for room in ROOMS:
            module = import_module(f"{__name__}.{room}")
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(public_names())


def public_names() -> dict[str, str]:
    """Every public name with the module that has it."""
    from privod.registry import questions

    homes = {
        name: reference.partition(":")[0]
        for described in questions().values()
        for name, reference in described.public_names().items()
    }
    for room in ROOMS:
        module = import_module(f"{__name__}.{room}")
        homes |= dict.fromkeys(module.__all__, module.__name__)
    return homes
