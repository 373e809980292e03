"""How large may a data set be, and what follows from it? Declared by its owner, so public.

Into how many partitions rows are cut, and which questions may be asked, follow from the most
records that an owner declared at registration: a refusal by the rows would tell how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from privod.errors import InvalidData, InvalidParameter

UNLESS_DECLARED = 100_000
"""The most records of a data set whose owner declares nothing else."""

IN_MEMORY = 10_000_000
"""A data set declared to have at most so many records is held in memory while it is asked."""

MOST_RECORDS = 1 << 37  # so that sums of products of 2^24 each leave 64 bits to their noise
MOST_VALUES = 500_000_000  # of 8 bytes: what a question of a larger data set may hold at once
VALUES_IN_PARTITION = 1 << 22
ROWS_IN_PARTITION = 1 << 19  # two at a time are capped in memory
MOST_PARTITIONS = 512  # each is an open file while rows are split by persons


@dataclass(frozen=True)
class SizeClass:
    """The most records that a data set may have, as its owner declared: public and fixed.

    Up to ten million, every question can be asked.
    """

    most_records: int = UNLESS_DECLARED

    def __post_init__(self) -> None:
        most = self.most_records
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_RECORDS:
            rule = f"must be a whole number from 1 to {MOST_RECORDS}"
            raise InvalidParameter("most_records", rule, most, "Try 100000000.")

    @property
    def in_memory(self) -> bool:
        """Whether the rows are held in memory while questions are asked."""
        return self.most_records <= IN_MEMORY

    def partitions(self, n_columns: int) -> int:
        """Into how many partitions rows of so many columns are cut."""
        rows = min(ROWS_IN_PARTITION, max(1, VALUES_IN_PARTITION // n_columns))
        return min(MOST_PARTITIONS, -(-self.most_records // rows))

    def refuse_more(self) -> NoReturn:
        """Refuse a source with more records than were declared."""
        raise InvalidData(
            f"The source has more than the {self.most_records:,} records that were declared."
            " Nothing was registered. Declare as many as there may be, `most_records`."
            " Answers may then take more time and memory at worst."
        )

    def refuse_larger(self, held_per_record: int) -> None:
        """Raise unless a question that holds so many values of each record can be asked."""
        if self.in_memory or self.most_records * held_per_record <= MOST_VALUES:
            return
        rule = (
            f"must hold at most {MOST_VALUES} values in memory at once ({held_per_record} of each"
            f" of the {self.most_records:,} declared records)"
        )
        way_out = (
            "Ask about fewer columns, or a question that reads rows block by block: a histogram,"
            " a detector's profile, or a grid without drop_below."
        )
        raise InvalidParameter("query", rule, self.most_records * held_per_record, way_out)
