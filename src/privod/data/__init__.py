"""What is held: private rows inside a public domain."""

from privod.data.csv_file import CsvDialect
from privod.data.domain import Categorical, Column, Domain, Numeric
from privod.data.intake import ColumnReport, IntakeReport
from privod.data.sources import read
from privod.data.sql import SqlQuery
from privod.data.table import Table

__all__ = [
    "Categorical",
    "Column",
    "ColumnReport",
    "CsvDialect",
    "Domain",
    "IntakeReport",
    "Numeric",
    "SqlQuery",
    "Table",
    "read",
]
