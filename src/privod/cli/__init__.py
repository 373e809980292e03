"""The command line."""

from privod.cli import (
    analyst,
    contexts,
    keeping,
    owner,
    owner_picture,
    parties,
    scoring,
    serving,
    trying,
)
from privod.cli.app import app, main

__all__ = [
    "analyst",
    "app",
    "contexts",
    "keeping",
    "main",
    "owner",
    "owner_picture",
    "parties",
    "scoring",
    "serving",
    "trying",
]
