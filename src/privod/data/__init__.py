"""What is held: private rows inside a public domain."""

from privod.data.columns import Boolean, Categorical, Column, Date, Numeric, Ordinal
from privod.data.csv_file import CsvDialect
from privod.data.domain import Domain
from privod.data.drafting import draft_domain
from privod.data.intake import ColumnReport, IntakeReport
from privod.data.sources import read
from privod.data.sql import SqlQuery
from privod.data.table import Table

__all__ = [
    "Boolean",
    "Categorical",
    "Column",
    "ColumnReport",
    "CsvDialect",
    "Date",
    "Domain",
    "IntakeReport",
    "Numeric",
    "Ordinal",
    "SqlQuery",
    "Table",
    "draft_domain",
    "read",
]
