"""Releases that score records, and their scorers.

A released value that can score records is a `Scorable`. It may be carried away: everything here
looks at released numbers only, so it costs no budget, and needs neither the data nor a curator.

A `Scorer` is a view of such a value with settings chosen (`value.scorer(score_by="tail")`), so that
one release serves several scores. The command line, the console, the estimators and joint runs use
scorers only. They find the class of a value by the registry (`Question.value`), so a question of
another package is scored like ours.

To write one: a frozen dataclass (`eq=False`) with the fields `guarantee` and `seeded`, a subclass
of `Scorable` that gives `question`, `columns`, `header`, `arrays`, `build` and `scores`. Saving,
loading, JSON, equality and merging are here. Fields named in `added` add up in a merge; all other
fields must be equal (override `alike` and `plus` if that is not so). Where a release has several
scores, give a subclass of `Scorer` with the settings as fields, and return it from `scorer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.arrays import Floats
from privod.data import Column
from privod.errors import InvalidData, InvalidParameter
from privod.privacy import Guarantee
from privod.privacy.guarantee import merged_promise
from privod.query.explanation import Explanation
from privod.query.release_file import ArrayOf, build_from_file, build_from_json, signed, write_file

__all__ = ["Explanation", "Scorable", "Scorer"]


class Scorable(ABC):
    """A released value that scores records; higher is more outlying."""

    question: ClassVar[str]
    """The name of the question that releases it, by which files say what they hold."""

    added: ClassVar[tuple[str, ...]]
    """The fields that add up in a merge, such as counts and their noise."""

    guarantee: Guarantee
    seeded: bool

    def __post_init__(self) -> None:
        if self.seeded:
            object.__setattr__(self, "guarantee", replace(self.guarantee, seeded=True))

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns that a record must have, in order."""

    @abstractmethod
    def header(self) -> dict[str, Any]:
        """Everything but arrays, guarantee and seed, as plain values."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of whole numbers, by name."""

    @classmethod
    @abstractmethod
    def build(cls, header: dict[str, Any], array: ArrayOf) -> Self:
        """Build a value of parts that came from anywhere; refuse what no release can have.

        The header holds the guarantee and the seed, too.
        """

    @property
    def takes_gaps(self) -> bool:
        """Whether a record may miss a value (NaN) that no fill is declared for."""
        return False

    @property
    def hidden_share(self) -> float:
        """Which share of the reference noise may hide: a threshold for fewer is a guess."""
        return 0.0

    def scorer(self, **settings: Any) -> Scorer[Self]:
        """Score records with these settings; the fields of the scorer's class."""
        return Scorer.chosen(self, settings)

    @abstractmethod
    def scores(self, records: ArrayLike) -> Floats:
        """The scores of records with the usual settings; columns in order."""

    def threshold(self, share: float) -> float | None:  # noqa: ARG002 - for those that know
        """The score beyond which about this share of the reference lies; None: orders only."""
        return None

    def share_beyond(
        self,
        score: float,  # noqa: ARG002
        confidence: float = 0.95,  # noqa: ARG002
    ) -> tuple[float, float] | None:
        """Between which shares of the reference score higher, noise considered; None if unknown."""
        return None

    def explain(self, records: ArrayLike) -> Explanation | None:  # noqa: ARG002
        """What each column adds to the score of each record; None if unknown."""
        return None

    def alike(self) -> tuple[Any, ...]:
        """What values must have in common to be merged."""
        assert is_dataclass(self)  # noqa: S101 - what every subclass is, told to the type checker
        left_out = {*self.added, "guarantee", "seeded"}
        same = (getattr(self, one.name) for one in fields(self) if one.name not in left_out)
        shapes = (array.shape for array in self.arrays().values())
        return self.guarantee.adjacency, *same, *shapes

    def plus(self, other: Self) -> dict[str, Any]:
        """The fields of the sum of two values that differ from those of the first."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in self.added}
        return {
            name: None if mine is None or theirs is None else mine + theirs
            for name, (mine, theirs) in pairs.items()
        }

    def merge(self, *others: Self) -> Self:
        """Add up the releases of disjoint records, of other holders or other batches; free.

        The guarantee of the sum counts on the records being disjoint. Under AddRemove it is the
        largest loss (parallel composition); under Replace too, since a replaced record stays in
        the part that it is in.
        """
        for part in others:
            if type(part) is not type(self) or part.alike() != self.alike():
                raise InvalidData(
                    f"Releases of {self.question} are merged only if they were asked for alike:"
                    " with the same columns, cells, adjacency, parameters and kind of noise."
                )
        merged = self
        for part in others:
            merged = replace(merged, **merged.plus(part))  # type: ignore[type-var]
        parts = (self, *others)
        promise = merged_promise([part.guarantee for part in parts])
        marked = any(part.seeded for part in parts)
        return replace(merged, guarantee=promise, seeded=marked)  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        arrays = {name: array.tolist() for name, array in self.arrays().items()}
        return {**signed(self.question), **self._whole_header(), **arrays}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read back what `to_json` wrote."""
        return build_from_json(data, cls.question, cls.build)

    def save(self, path: str | Path) -> None:
        """Write one file: a zip of a JSON header and plain arrays, no pickle."""
        if str(path).endswith(".json"):
            raise InvalidParameter("path", "must not end in .json", str(path), "End it in .privod.")
        write_file(path, self.question, self._whole_header(), self.arrays())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote; needs neither the data nor a curator."""
        return build_from_file(path, cls.question, cls.build)

    def _whole_header(self) -> dict[str, Any]:
        return {**self.header(), "guarantee": self.guarantee.to_json(), "seeded": self.seeded}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        mine, theirs = self.arrays(), other.arrays()
        same = mine.keys() == theirs.keys() and self._whole_header() == other._whole_header()
        return same and all(np.array_equal(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]


Value = TypeVar("Value", bound=Scorable)


@dataclass(frozen=True, eq=False)
class Scorer(Generic[Value]):
    """Scores records against one release, with settings chosen; free."""

    value: Value

    @classmethod
    def chosen(cls, value: Value, settings: dict[str, Any]) -> Self:
        """A scorer with these settings, which are the fields of the class."""
        known = [one.name for one in fields(cls) if one.name != "value"]
        for name, given in settings.items():
            if name not in known:
                way_out = f"Its settings are {', '.join(known)}." if known else "It has none."
                raise InvalidParameter(name, f"is no setting of {value.question}", given, way_out)
        return cls(value, **settings)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.value.columns

    @property
    def takes_gaps(self) -> bool:
        return self.value.takes_gaps

    @property
    def guarantee(self) -> Guarantee:
        """The promise of the release, which holds for every score too."""
        return self.value.guarantee

    @property
    def hidden_share(self) -> float:
        return self.value.hidden_share

    def scores(self, records: ArrayLike) -> Floats:
        return self.value.scores(records)

    def threshold(self, share: float) -> float | None:
        return self.value.threshold(share)

    def share_beyond(self, score: float, confidence: float = 0.95) -> tuple[float, float] | None:
        return self.value.share_beyond(score, confidence)

    def explain(self, records: ArrayLike) -> Explanation | None:
        return self.value.explain(records)

    def merge(self, *others: Scorer[Value]) -> Self:
        """The same view of the merged releases."""
        return replace(self, value=self.value.merge(*(other.value for other in others)))
