"""The command line."""

from privod.cli import analyst, contexts, owner, parties, serving, trying
from privod.cli.app import app, main

__all__ = ["analyst", "app", "contexts", "main", "owner", "parties", "serving", "trying"]
