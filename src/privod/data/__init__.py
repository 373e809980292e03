"""What is held: private rows inside a public domain."""

from privod.data.domain import Categorical, Column, Domain, Numeric
from privod.data.sources import read
from privod.data.table import Table

__all__ = ["Categorical", "Column", "Domain", "Numeric", "Table", "read"]
