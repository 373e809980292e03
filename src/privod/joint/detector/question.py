"""The private detector over the records of several holders: docs/proofs/joint_detector.md."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.data import Domain, Table
from privod.errors import InvalidParameter
from privod.joint.detector.sums import host_stage, noisy_sums
from privod.joint.files import private_file
from privod.joint.question import JointQuestion, JointResult, Seat, check_one_record_each
from privod.joint.roster import Roster
from privod.joint.transport.channel import Meeting
from privod.mechanisms.merged import MergedNoise
from privod.mechanisms.shared import COUNTED_ON
from privod.privacy import AddRemove, Adjacency, Guarantee, Number, Secrecy
from privod.privacy.zcdp import epsilon_of_rho
from privod.query.score_counts import between
from privod.query.scores import check_fraction
from privod.query.stages import Stage, count_rows, go_through
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.detector_profile.release import NoisyProfile

DOUBT = 6.0  # deviations that noise does not explain: once in 10^8 columns
ALONE_EPSILON = 10**4  # of noise that rounds to none: what stays at home needs none


@dataclass(frozen=True, kw_only=True)
class JointDetector(JointQuestion):
    """Score every party's records by what is ordinary among the records of all parties.

    Guarantee
    ---------
    Every record of every party is protected by (epsilon, delta), under `adjacency`, against
    everybody but its own party, as long as no two computing parties put their shares together. Two
    that do leave half of the noise; `secrecy` says what is lost then. All three see every holder's
    sums. Several records of one person, or a person at several parties, are not protected as one.

    Parameters
    ----------
    columns : tuple of str
        The columns, numeric or categorical.
    epsilon : number
        The privacy loss of the whole run, all stages together.
    delta : number
        A probability that is added to the bound of epsilon, greater than 0.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    target_fraction : float
        The share of all records that should be flagged.
    """

    name: ClassVar[str] = "joint-detector"
    question: ClassVar[str] = "Which of my records are unusual among the records of all of us?"

    columns: tuple[str, ...]
    epsilon: Number
    delta: Number = Fraction(1, 10**6)
    adjacency: Adjacency = AddRemove()
    target_fraction: float = 0.01

    def __post_init__(self) -> None:
        check_fraction(self.target_fraction)
        of = self.of
        if not of.delta:
            rule = "must be greater than 0: noise in shares is Gaussian"
            raise InvalidParameter("delta", rule, 0, "Try 1e-6.")
        for name in ("columns", "epsilon", "delta", "adjacency"):
            object.__setattr__(self, name, getattr(of, name))

    @property
    def of(self) -> DetectorProfile:
        """The release, as a curator would be asked for it."""
        return DetectorProfile(
            columns=self.columns, epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency
        )

    def check(self, domain: Domain) -> None:
        self.of.check(domain)
        check_one_record_each(domain)

    def check_roster(self, roster: Roster) -> None:
        roster.check_computing()

    def needed(self, roster: Roster) -> tuple[str, ...]:
        return roster.computing

    def table_guarantee(self) -> Guarantee:
        return self.of.guarantee()

    def secrecy(self) -> Secrecy:
        loss = self.table_guarantee().loss
        known = COUNTED_ON * self.of.budget  # one share left of two: half of the variance
        epsilon = float(epsilon_of_rho(known, Fraction(self.delta)))
        sums = "the noisy sums of all records together, by which the detector scores"
        learns = (
            ("each party", f"{sums}, and which of its own records are flagged"),
            ("the aggregator", f"{sums}, and which holders took part in which stage"),
            (
                "a coalition of two computing parties",
                "the same sums with half of the noise's variance: then epsilon"
                f" {epsilon:.3g} holds in place of {float(loss.epsilon):.3g}, at delta"
                f" {float(loss.delta):.2g}",
            ),
            ("a coalition of all three", "every holder's sums, without noise"),
        )
        return Secrecy("three computing parties", learns, 1, noisy=True)

    def warning(self) -> str:
        """What to know before approving, besides who learns what."""
        return (
            "A holder that is lost is left out from then on. A computing party that is lost ends"
            " the run; a restart draws fresh noise, is a new release and is charged again. A"
            " dishonest holder can spoil the detector by false sums."
        )

    def expectation(self, records: int | None, n_parties: int, domain: Domain | None) -> list[str]:
        told = [
            "Together: one release of the detector over the records of all parties, with the noise"
            f" of one release, not of {n_parties}. It varies 1.5 times as much as a curator's,"
            " because three shares are drawn and two are counted on.",
            self.warning(),
        ]
        if domain is not None:
            self.check(domain)
            numbers = self.of.n_numbers(domain)
            told.append(f"Each party sends at most about {8 * numbers / 1e3:,.1f} kB a stage.")
        if records is not None:
            share = self.target_fraction
            meant = f"About {share * records:,.0f} of {records:,} records will be flagged"
            told.append(f"{meant}: the fewer, the farther off. The run says how far.")
        return told

    def flagged(self, value: NoisyProfile, table: Table) -> Ints:
        """The rows of a table that score beyond the threshold of a release."""
        found = value.scores(_rows(table, self.columns)) > value.threshold(self.target_fraction)
        return np.flatnonzero(found)

    def rows_alone(self, table: Table) -> Ints:
        """The rows that the same detector, without noise, flags by the party's own records."""
        of = replace(self.of, epsilon=ALONE_EPSILON)
        stages = of.stages(table.domain)
        return self.flagged(go_through(stages, lambda stage: _sums(self, stage, table)), table)

    def take_part(self, seat: Seat) -> JointProfile:
        session = seat.agreed(self)
        table, claimed = seat.table, None
        if table is not None:
            claimed = seat.claim(self, self.columns)  # before the first share leaves
        holders: dict[str, tuple[str, ...]] = {}

        def open_sums(stage: Stage) -> Ints:
            own = None if table is None else _sums(self, stage, table)
            noisy, found = noisy_sums(stage, own, seat.channel, session, seat.randomness)
            holders[_numbered(stage.name, holders)] = found
            return noisy

        stages = self.of.stages(
            seat.domain, seeded=seat.randomness.seeded, drawn=MergedNoise.of_shares
        )
        value = go_through(stages, open_sums)
        return seat.result(
            JointProfile,
            self,
            session,
            claimed,
            np.empty(0, np.int64) if table is None else self.flagged(value, table),
            "a detector over all records",
            value=value,
            holders=holders,
            person=seat.domain.person,
        )

    def host(self, meeting: Meeting, roster: Roster, domain: Domain | None) -> dict[str, Any]:
        assert domain is not None  # noqa: S101 - `check_hosting` asks for it
        holders: dict[str, tuple[str, ...]] = {}

        def add_up(stage: Stage) -> Ints:
            total, found = host_stage(stage, meeting, roster)
            holders[_numbered(stage.name, holders)] = found
            return total

        value = go_through(self.of.stages(domain, drawn=MergedNoise.of_shares), add_up)
        return {"opened": _digest(value), "holders": _listed(holders)}


@dataclass(frozen=True, eq=False, kw_only=True)
class JointProfile(JointResult):
    """A detector of all parties' records, and which of one's own it flags.

    `value` is the release, the same at every party; it scores new records, too. `holders` says
    whose records were added up in each stage, `person` which column tells persons apart.
    """

    question: JointDetector
    value: NoisyProfile
    holders: dict[str, tuple[str, ...]]
    person: str | None = None

    def sentences(self) -> list[str]:
        told = [self.compared(), self.listing()] if self.own_records else []
        told += [self._about_detector(), self._about_holders()]
        if self.columns_in_doubt():
            names = ", ".join(self.columns_in_doubt())
            told.append(
                f"Do not rely on {names}: its counts do not add up to the number of records. A"
                " holder sent false sums, or was lost in between."
            )
        return [*told, self._promise()]

    def columns_in_doubt(self) -> list[str]:
        """Columns whose counts add up to another number of records than noise explains."""
        value, starts = self.value, self.value.layout.starts
        found = []
        for column, start, end in zip(value.layout.columns, starts, starts[1:], strict=False):
            varies = (end - start) * value.noise_of_counts.deviation**2
            varies += value.noise_of_total.deviation**2
            apart = abs(int(value.counts[start:end].sum()) - value.total)
            if apart > DOUBT * math.sqrt(varies) + 1:
                found.append(column.name)
        return found

    def _about_detector(self) -> str:
        share = self.question.target_fraction
        told = (
            f"The detector stands for about {self.value.records:.0f} records of all holders. Its"
            f" threshold is meant to flag {100 * share:.3g} % of them"
        )
        flagged = self.value.share_beyond(self.value.threshold(share))
        if flagged is None:
            return f"{told}."
        return f"{told}; it flags {between(flagged)} (95 % confidence)."

    def _promise(self) -> str:
        """The guarantee, towards records, and towards persons if a column tells them apart."""
        promise = self.question.table_guarantee().sentence()
        if self.person is None:
            return promise
        return (
            f"{promise} One record was kept of each person, told apart by {self.person!r}: the"
            " same holds for a person who is at one party only. A person at several parties is not"
            " protected as one."
        )

    def _about_holders(self) -> str:
        first = next(iter(self.holders.values()))
        left = [
            f"{name} from {stage} on"
            for name in first
            for stage in [next((at for at, who in self.holders.items() if name not in who), None)]
            if stage is not None
        ]
        lost = f" Left out: {', '.join(left)}." if left else ""
        return f"{len(first)} holders took part.{lost}"

    def to_json(self) -> dict[str, Any]:
        return {
            **super().to_json(),
            "holders": _listed(self.holders),
            "value": self.value.to_json(),
            "guarantee": self.question.table_guarantee().to_json(),
        }

    def stated(self) -> dict[str, Any]:
        return {"opened": _digest(self.value), "holders": _listed(self.holders)}

    def write(self, folder: Path, stem: str, ids: Sequence[str] | None) -> None:
        """Write the release, and a CSV of the own rows that are flagged, together or alone."""
        with private_file(folder / f"{stem}.privod"):
            self.value.save(folder / f"{stem}.privod")
        super().write(folder, stem, ids)


def _sums(question: JointDetector, stage: Stage, table: Table) -> Ints:
    """A party's own sums of a stage, exact."""
    if stage.sums is count_rows:
        return np.array([len(table)], dtype=np.int64)
    return table.sums(question.columns, stage.sums)


def _rows(table: Table, columns: Sequence[str]) -> NDArray[np.float64]:
    """Records as a release scores them: categories as places in their lists."""
    numeric = table.domain.numeric_names
    found = [
        table.numbers([name])[:, 0] if name in numeric else table.codes([name])[:, 0]
        for name in columns
    ]
    return np.column_stack(found).astype(np.float64)


def _digest(value: NoisyProfile) -> str:
    """Stands for everything that was opened: equal at every participant."""
    content = {**value.to_json(), "seeded": False}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _numbered(name: str, known: dict[str, tuple[str, ...]]) -> str:
    """A stage's name; the second one of that name is called so."""
    before = sum(one.partition(" ")[0] == name for one in known)
    return f"{name} {before + 1}" if before else name


def _listed(holders: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    return {stage: list(names) for stage, names in holders.items()}
