"""Where rows are when they do not fit into memory, and how they are added up there."""

from privod.engines.lakes import InPlace
from privod.engines.opening import open_rows
from privod.engines.size import SizeClass

__all__ = ["InPlace", "SizeClass", "open_rows"]
