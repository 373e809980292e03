"""Compiled loops over the bytes of cells; each with a plain twin in the tests."""

from privod import compiling

__all__: list[str] = []

del compiling
