"""The command line."""

from privod.cli import (
    advice,
    analyst,
    backup,
    contexts,
    demo,
    joint,
    owner,
    owner_picture,
    rehearsal,
    score,
    serve,
)
from privod.cli.app import app, main

__all__ = [
    "advice",
    "analyst",
    "app",
    "backup",
    "contexts",
    "demo",
    "joint",
    "main",
    "owner",
    "owner_picture",
    "rehearsal",
    "score",
    "serve",
]
