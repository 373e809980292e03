"""The questions: one paper, one room, one shape."""

from privod.queries.catalog import QUERIES
from privod.queries.query import Query, Release

__all__ = ["QUERIES", "Query", "Release"]
