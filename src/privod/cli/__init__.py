"""The command line."""

from privod.cli import analyst, owner, parties, serving, trying
from privod.cli.app import app, main

__all__ = ["analyst", "app", "main", "owner", "parties", "serving", "trying"]
