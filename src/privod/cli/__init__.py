"""The command line."""

from privod.cli import (
    analyst,
    backup,
    contexts,
    demo,
    joint,
    life_cycle,
    owner,
    owner_picture,
    rehearsal,
    score,
    serve,
)
from privod.cli.app import app, main

__all__ = [
    "analyst",
    "app",
    "backup",
    "contexts",
    "demo",
    "joint",
    "life_cycle",
    "main",
    "owner",
    "owner_picture",
    "rehearsal",
    "score",
    "serve",
]
