"""What a curator returns: an answer with its price, a data set with the report of its intake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privod.data.intake import IntakeReport
from privod.ledger.store import DataSet
from privod.ledger.values import Charge
from privod.query.html import release_html
from privod.query.query import Release

NO_ANSWER = (
    "The question was charged and no answer came. The charge stands, whatever the reason;"
    " asking again, under a new request id, is a new charge."
)


@dataclass(frozen=True)
class Answer:
    """A release and what it cost.

    `stored` says that the release was there already and nothing was charged this time. `head` is
    where the ledger ended when the answer left ("number:hash"): whoever keeps it can show later
    that the ledger lost entries.
    """

    release: Release[Any]
    charges: tuple[Charge, ...]
    stored: bool
    head: str = ""

    def __str__(self) -> str:
        return str(self.release)

    def plot(self) -> Any:
        """The answer as a matplotlib figure."""
        return self.release.plot()

    def to_pandas(self) -> Any:
        """The answer as a pandas data frame."""
        return self.release.to_pandas()

    def to_polars(self) -> Any:
        """The answer as a polars data frame."""
        return self.release.to_polars()

    def _repr_html_(self) -> str:
        charged = "; ".join(f"{one.loss} to {one.adjacency.name}" for one in self.charges)
        cost = "It was answered before and cost nothing." if self.stored else f"Price: {charged}."
        return release_html(self.release, cost)


@dataclass(frozen=True)
class Registered:
    """A data set, and what became of its records, which is for the owner alone.

    `same_rows_as` names other data sets, with budgets of their own, that hold the very same rows:
    about these people is lost what all of these budgets allow together.
    """

    dataset: DataSet
    report: IntakeReport
    same_rows_as: tuple[str, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """What became of the records, what their cap costs, and what rows registered twice mean."""
        told = (*self.report.sentences(), self._cost_of_cap(), self.warning())
        return tuple(filter(None, told))

    def _cost_of_cap(self) -> str:
        """What several rows per person cost; "" where a person has one."""
        cap = self.dataset.domain.max_rows_per_person
        if cap == 1:
            return ""
        return (
            f"A person may have {cap} rows, for good: every question costs {cap} times its epsilon,"
            " and questions under in-crowd or in-alike-crowd, such as rare-counts, can never"
            " be asked of this data set or of one that continues it. If a cap of 1 says enough,"
            " retire it before a budget is open, and register the rows anew with a cap of 1,"
            " under a new name that continues none."
        )

    def warning(self) -> str:
        """What rows that were registered twice mean; "" if they were not."""
        if not self.same_rows_as:
            return ""
        names = ", ".join(repr(name) for name in self.same_rows_as)
        return (
            f"These very rows are registered as {names} too, with budgets of their own: together"
            " the answers lose what all these budgets allow. If that is not meant, close the"
            " budgets of one; a new version should say which data set it continues."
        )
