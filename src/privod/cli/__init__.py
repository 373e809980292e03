"""The command line."""

from privod.cli import analyst, contexts, keeping, owner, parties, scoring, serving, trying
from privod.cli.app import app, main

__all__ = [
    "analyst",
    "app",
    "contexts",
    "keeping",
    "main",
    "owner",
    "parties",
    "scoring",
    "serving",
    "trying",
]
