"""The command line."""

from privod.cli import (
    agent,
    analyst,
    backup,
    contexts,
    demo,
    engine,
    joint,
    life_cycle,
    narrow,
    owner,
    owner_picture,
    rehearsal,
    score,
    serve,
    sheet,
)
from privod.cli.app import app, main

__all__ = [
    "agent",
    "analyst",
    "app",
    "backup",
    "contexts",
    "demo",
    "engine",
    "joint",
    "life_cycle",
    "main",
    "narrow",
    "owner",
    "owner_picture",
    "rehearsal",
    "score",
    "serve",
    "sheet",
]
