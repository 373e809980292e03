"""The command line."""

from privod.cli import analyst, contexts, owner, owner_picture
from privod.cli import backup as keeping
from privod.cli import demo as trying
from privod.cli import joint as parties
from privod.cli import score as scoring
from privod.cli import serve as serving
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
