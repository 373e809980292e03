"""What questions share: a query, its release, its parameters, its preview and its checks."""

from privod.query.catalog import QUERIES
from privod.query.query import Query, Release

__all__ = ["QUERIES", "Query", "Release"]
