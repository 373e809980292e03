"""The command line."""

from importlib import import_module

from privod.cli.app import app, main

__all__ = ["app", "main"]

for _room in ("analyst", "demo", "joint", "keeping", "owner", "score", "serve"):
    import_module(f"privod.cli.{_room}")
