"""The command line."""

from importlib import import_module

from privod.cli.app import app, main

__all__ = ["app", "main"]

for _room in (
    *("agent", "analyst", "backup", "demo", "engine", "joint", "life_cycle"),
    *("narrow", "owner", "rehearsal", "score", "serve", "sheet"),
):
    import_module(f"privod.cli.{_room}")
