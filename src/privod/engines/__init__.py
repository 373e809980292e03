"""Where rows are when they do not fit into memory, and how they are added up there."""

from privod.engines.size import SizeClass
from privod.engines.stored import StoredRows

__all__ = ["SizeClass", "StoredRows"]
